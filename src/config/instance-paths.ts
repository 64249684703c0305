// SPDX-License-Identifier: Apache-2.0
// Default locations of what outlives the process of an instance.

/** Pins of maps and links. */
export const DEFAULT_BPF_ROOT = '/sys/fs/bpf/fairlead';
/** Socket and state. */
export const DEFAULT_RUN_DIR = '/run/fairlead';
