// SPDX-License-Identifier: Apache-2.0
// Where an instance keeps what outlives its process, unless it is told otherwise.

/** Pins of maps and links. */
export const DEFAULT_BPF_ROOT = '/sys/fs/bpf/fairlead';
/** Socket and state. */
export const DEFAULT_RUN_DIR = '/run/fairlead';
