// SPDX-License-Identifier: Apache-2.0
// The typed surface of the addon: a thin binding over libbpf and a few system calls. It knows file
// descriptors, bytes and options, and no word of Kubernetes. Hand written; the only description
// TypeScript sees. Everything is synchronous unless it returns a Promise.
//
// Errors: every failure throws an Error with `code`, `errno` (positive number, 0 if none) and `op` (the
// libbpf or system call, or the method whose argument was refused). `code` is an errno name such as
// 'E2BIG', or one of ours: 'ARGUMENT', 'CLOSED', 'STATE' (an object not loaded yet, or already),
// 'INCOMPATIBLE', 'VERIFIER'. Every argument is checked against the map's real sizes before the kernel
// sees it ('ARGUMENT'). Every close() is idempotent; methods of a closed handle throw 'CLOSED', while
// facts of a handle (`info`, `name`, `kind`, `id`) stay readable. A forgotten handle closes when it is
// collected or its environment ends. Network interfaces are those of the calling thread's namespace.

export type { NativeError } from './types/errors.js';
export {
  type BpfLink,
  cgroupPrograms,
  openPinnedLink,
  removeTcFilter,
  tcFilter,
  tcxPrograms,
} from './types/link.js';
export {
  type BatchResult,
  type BpfMap,
  type MapInfo,
  openPinnedMap,
  openRingBuffer,
  type RingBuffer,
  waitGracePeriod,
} from './types/map.js';
export {
  connectSockets,
  destroySockets,
  type NetlinkSocket,
  netnsAddresses,
  netnsCookie,
  openNetlink,
  openRelay,
  type Relay,
  xtTargets,
} from './types/network.js';
export {
  type BpfObject,
  openObject,
  readBtf,
  type StructLayout,
} from './types/object.js';
export {
  type BpfProgram,
  openPinnedProgram,
  programName,
  readIterator,
} from './types/program.js';
export {
  abstractListener,
  fileSystemType,
  libbpfVersion,
  lockExclusively,
  mountBpffs,
  possibleCpus,
  receiveDescriptors,
  releaseProgram,
  sendDescriptors,
  setTrimThreshold,
  unmount,
  unshareMounts,
  unshareNetwork,
} from './types/system.js';
