// SPDX-License-Identifier: Apache-2.0
// The paths that forward before the programs of tc, each in a folder of its own. Without this line none does.

import type { EarlyPathKind } from '../../devices/early-path.ts';
import { XDP } from '../../xdp/kernel/open.ts';

export const EARLY_PATHS: readonly EarlyPathKind[] = [XDP];
