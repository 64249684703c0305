// SPDX-License-Identifier: Apache-2.0
// Annotations of a Node that its own agent writes, and takes back. A bad one is left out alone.
import { DIRECT_RETURN_ANNOTATION } from '../direct-return/annotation.ts';

export const OWN_ANNOTATIONS: readonly string[] = [DIRECT_RETURN_ANNOTATION];
