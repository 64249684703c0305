// SPDX-License-Identifier: Apache-2.0
// The dataplanes that an agent composes (dataplanes.ts opens them), for commands that explain without one.
import { BPF, type Capabilities } from '../dataplane/capabilities.ts';

/** In the order in which they are asked to serve a frontend. */
export const COMPOSED: readonly Capabilities[] = [BPF];
