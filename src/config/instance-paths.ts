// SPDX-License-Identifier: Apache-2.0
// Locations of what outlives the process of an instance, and of what others have on the node.

/** Pins of maps and links. */
export const DEFAULT_BPF_ROOT = '/sys/fs/bpf/fairlead';
/** Socket and state. */
export const DEFAULT_RUN_DIR = '/run/fairlead';
/** In a run directory: the objects of a folder of manifests that count. */
export const lastGoodPath = (runDir: string): string => `${runDir}/manifests.jsonl.gz`;
/** Of changes: below /run there is memory alone. Another instance has its own. */
export const historyDir = (runDir: string): string =>
  runDir === DEFAULT_RUN_DIR ? '/var/lib/fairlead/history' : `${runDir}/history`;
/** Where container runtimes look for the network of pods. */
export const DEFAULT_CNI_FOLDER = '/etc/cni/net.d';
