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

export interface NativeError extends Error {
  code: string;
  errno: number;
  op: string;
  /** Verifier refusals only: the whole log; the message holds its last useful lines. */
  log?: string;
}

export interface MapInfo {
  readonly name: string;
  /** Kernel's enum bpf_map_type. */
  readonly type: number;
  readonly keySize: number;
  /** As declared; per-CPU maps return possibleCpus() × valueSize rounded up to 8. */
  readonly valueSize: number;
  readonly maxEntries: number;
  readonly flags: number;
  /** Kernel id of the map. */
  readonly id: number;
}

export interface BatchResult {
  /** How many leading entries the kernel took: honest also on failure. */
  readonly count: number;
  /** The error that stopped it; undefined = all were taken. */
  readonly error?: NativeError;
}

export interface BpfMap {
  readonly info: MapInfo;
  /** Value bytes, or undefined if the key is absent. */
  get(key: Uint8Array): Uint8Array | undefined;
  /** flags: 0 any, 1 only if absent (EEXIST), 2 only if present (ENOENT). */
  put(key: Uint8Array, value: Uint8Array, flags?: number): void;
  /** False if the key was absent. */
  delete(key: Uint8Array): boolean;
  /** `keys` and `values` hold whole elements back to back (values padded to 8 for per-CPU maps). */
  putBatch(keys: Uint8Array, values: Uint8Array): BatchResult;
  /** Absent keys are not an error: they are skipped and counted as done. */
  deleteBatch(keys: Uint8Array): BatchResult;
  /**
   * Every element, read in batches; falls back to get-next-key where the map type has no batches.
   * Under writers it is no snapshot: what is there all the time is read once, in a hash map.
   */
  readAll(): { readonly keys: Uint8Array; readonly values: Uint8Array; readonly count: number };
  /**
   * About `count` elements (1 to 65,536) and where they end: `next`, as `after` of the next call, continues there;
   * undefined = these were the last. Hash buckets are not divided: the elements of one may exceed `count`. As
   * readAll() under writers. Throws where the map type has no batches.
   */
  readBatch(
    count: number,
    after?: Uint8Array,
  ): {
    readonly keys: Uint8Array;
    readonly values: Uint8Array;
    readonly count: number;
    readonly next?: Uint8Array;
  };
  /**
   * Shared memory of a BPF_F_MMAPABLE array: element i starts at i × (valueSize rounded up to 8). All of
   * it, or `length` bytes from `offset`, which is a multiple of the page size: what is mapped counts as
   * this process's memory. The same ArrayBuffer for the same part; it is detached (byteLength 0) by munmap
   * and when the map is closed, and cannot be transferred to another thread. What its own transfer()
   * returns (Node 22) is the caller's: it stays mapped until it is collected, whatever becomes of the
   * map. ENOTSUP for any other map.
   */
  mmap(offset?: number, length?: number): ArrayBuffer;
  /** Unmaps a part. 'ARGUMENT' for memory that mmap() did not return, or that was unmapped or transferred since. */
  munmap(memory: ArrayBuffer): void;
  pin(path: string): void;
  close(): void;
}

export interface BpfProgram {
  /** As in the object; of a pinned program the kernel's, which is cut at 15 characters. */
  readonly name: string;
  /** Kernel id, tag (hex) and verified instruction count. */
  readonly info: { readonly id: number; readonly tag: string; readonly verifiedInsns: number };
  /**
   * BPF_PROG_TEST_RUN. `retval` is the program's; durationNs the mean of `repeat` runs. dataOutSize is
   * dataIn and 256 bytes unless told otherwise. contextOut is as long as contextIn for packet
   * programs (its marks and the like after the run) and empty for all others.
   */
  testRun(options: {
    dataIn?: Uint8Array;
    contextIn?: Uint8Array;
    dataOutSize?: number;
    repeat?: number;
    /** BPF_F_TEST_* of the kernel. */
    flags?: number;
    /** Open descriptor of the network namespace whose routes the program sees; the caller's unless told otherwise. */
    netns?: number;
  }): {
    readonly retval: number;
    readonly durationNs: number;
    readonly dataOut: Uint8Array;
    readonly contextOut: Uint8Array;
  };
  /**
   * cgroupPath must be a cgroup v2 directory. `attachType` is the kernel's enum bpf_attach_type; without
   * it the one that the program's section says ('ARGUMENT' if the program comes from a pin).
   */
  attachCgroup(cgroupPath: string, attachType?: number): BpfLink;
  /**
   * tcx link where the kernel has it (6.6), else a clsact filter at the given priority and handle that
   * is replaced in place by update() and removed by detach(). `kind` on the link says which it was.
   * A clsact filter that is already at this priority (default 50) and handle (default 0xfa1) is
   * replaced, not doubled, so that a restart adopts its own; the clsact qdisc is never removed.
   *
   * `before` and `after` say where among the tcx programs of this hook, by the id of one of them
   * (ENOENT if it is not there) or by 0: before, or after, all of them. Without them: after all. Of
   * clsact filters the priority decides.
   */
  attachTc(
    ifindex: number,
    direction: 'ingress' | 'egress',
    options?: {
      priority?: number;
      handle?: number;
      forceClsact?: boolean;
      before?: number;
      after?: number;
    },
  ): BpfLink;
  attachXdp(ifindex: number, options?: { mode?: 'native' | 'generic' }): BpfLink;
  /** A raw tracepoint of the kernel, by its name (`xdp_exception`). */
  attachTracepoint(name: string): BpfLink;
  pin(path: string): void;
  close(): void;
}

export interface BpfLink {
  readonly kind: 'cgroup' | 'tcx' | 'clsact' | 'xdp' | 'tracepoint';
  /** Kernel link id, or 0 for clsact. */
  readonly id: number;
  /** Cgroup links: inode number of the cgroup's directory when the handle was made, 0 if it is gone. */
  readonly cgroupId: bigint | undefined;
  /** Of the device when the handle was made, in the device's own namespace, 0 if it is gone; undefined for cgroup links
   *  and tracepoints. */
  readonly ifindex: number | undefined;
  /** Of the program that it runs now, 0 for clsact. */
  readonly programId: number;
  /** Replaces this program by another, atomically: no packet or call goes without a program. */
  update(program: BpfProgram): void;
  /** Throws ENOTSUP for clsact (it outlives us by itself). */
  pin(path: string): void;
  /**
   * Removes the attachment itself (also a pinned one); close() only lets go of our handle. Fine if it
   * is gone already, with its device or its cgroup.
   */
  detach(): void;
  close(): void;
}

export interface BpfObject {
  /** Sets one `const volatile` variable before load; sizes must be equal. ENOENT if there is none. */
  setRodata(variable: string, value: Uint8Array): void;
  setMaxEntries(map: string, maxEntries: number): void;
  /** Uses the map pinned at `path` instead of a new one; false if there is no such pin. Throws
   *  'INCOMPATIBLE' naming what differs: type, sizes, flags, and, where the kernel keeps the map's BTF,
   *  the first field of key or value whose name, offset or type differs. */
  reusePin(map: string, path: string): boolean;
  /** Uses an open map of another object (same compatibility check). */
  reuseMap(map: string, from: BpfMap): void;
  setAutoload(program: string, isLoaded: boolean): void;
  setExpectedAttachType(program: string, attachType: number): void;
  /** BPF_F_* of BPF_PROG_LOAD; those that its section implies are added. */
  setProgramFlags(program: string, flags: number): void;
  /** Throws code 'VERIFIER' (with `log`) if the kernel refuses a program. */
  load(): void;
  /**
   * The same on another thread: the event loop goes on while the kernel verifies. Until it has ended all
   * other methods but close() throw 'STATE'; an object closed meanwhile is let go of at its end.
   */
  loadAsync(): Promise<void>;
  readonly maps: readonly string[];
  readonly programs: readonly { readonly name: string; readonly section: string }[];
  /**
   * The fields of key and value of a map as it is declared, by the object's BTF: `path bit width`, separated by commas,
   * each down to what has no fields itself (an array of bytes is one field). Before the load, or after it; empty texts: the
   * declaration has no types.
   */
  mapLayout(map: string): {
    readonly key: string;
    readonly value: string;
    /** As declared, or as set. */
    readonly maxEntries: number;
  };
  /** Handles of their own: they stay valid after the object is closed. */
  map(name: string): BpfMap;
  program(name: string): BpfProgram;
  close(): void;
}

/**
 * `name` (default 'object') begins the names of .rodata, .data and .bss maps. `kernelTypes`: BTF in which relocations of
 * fields and types are found, instead of that of the running kernel, for which libbpf takes 11 MiB.
 */
export function openObject(
  bytes: Uint8Array,
  options?: { name?: string; kernelTypes?: Uint8Array },
): BpfObject;
export function openPinnedMap(path: string): BpfMap;
export function openPinnedProgram(path: string): BpfProgram;
export function openPinnedLink(path: string): BpfLink;

/**
 * The programs of a device's tcx hook in the order in which they run; undefined if the kernel has no tcx (before 6.6).
 * `linkId` is 0 for a program without a link; `name` is empty without CAP_SYS_ADMIN.
 */
export function tcxPrograms(
  ifindex: number,
  direction: 'ingress' | 'egress',
):
  | readonly { readonly programId: number; readonly linkId: number; readonly name: string }[]
  | undefined;
/**
 * The programs of one attach type (enum bpf_attach_type) of a cgroup itself, in the order in which they run; undefined if the kernel does
 * not know the type. `linkId` is 0; `name` is empty without CAP_SYS_ADMIN.
 */
export function cgroupPrograms(
  cgroupPath: string,
  attachType: number,
):
  | readonly { readonly programId: number; readonly linkId: number; readonly name: string }[]
  | undefined;
/** Of a loaded program; empty without CAP_SYS_ADMIN, or if there is none. */
export function programName(programId: number): string;
/** The id of the program of the clsact filter at this priority and handle (see attachTc), 0 if there is none. */
export function tcFilter(
  ifindex: number,
  direction: 'ingress' | 'egress',
  options?: { priority?: number; handle?: number },
): number;
/** Removes that filter; fine if it, the qdisc or the device is gone. */
export function removeTcFilter(
  ifindex: number,
  direction: 'ingress' | 'egress',
  options?: { priority?: number; handle?: number },
): void;

export interface NetlinkSocket {
  /** Sends one datagram to the kernel. */
  send(message: Uint8Array): void;
  /**
   * The next datagram from the kernel, without waiting; undefined if there is none. Throws ENOBUFS once after the
   * kernel had to drop some.
   */
  receive(): Uint8Array | undefined;
  /**
   * Sends `message`, if there is one, and receives the next datagram, both on another thread: for requests that take the
   * kernel long, as dumps of large tables. Rejects as `send` and `receive` throw. One at a time; close() lets it end.
   */
  exchange(message?: Uint8Array): Promise<Uint8Array | undefined>;
  close(): void;
}
/**
 * A netlink socket in the network namespace `netns` (default: the calling thread's; another needs CAP_SYS_ADMIN). `groups` is the bit mask of its multicast groups.
 * `onReadable` is called on the event loop when there is something to receive, and again while there is; a
 * thread waits, the loop never blocks. What it throws is an uncaught exception. With it the socket keeps the
 * process alive until closed.
 */
export function openNetlink(
  options: { protocol: number; groups?: number; receiveBufferSize?: number; netns?: number },
  onReadable?: () => void,
): NetlinkSocket;

export interface RingBuffer {
  /** No record is delivered after it; those not yet delivered are dropped. */
  close(): void;
}
/**
 * Calls `onRecord` on the event loop for each record, in order; a thread waits, the loop never blocks.
 * About 256 records per turn of the loop and millisecond; 4,096 records or 1 MiB wait outside the ring, the others
 * in it. What `onRecord` throws is an uncaught exception. Keeps the process alive until closed.
 */
export function openRingBuffer(map: BpfMap, onRecord: (record: Uint8Array) => void): RingBuffer;

export interface StructLayout {
  readonly name: string;
  readonly sizeBytes: number;
  readonly fields: readonly {
    readonly name: string;
    readonly offsetBytes: number;
    readonly sizeBytes: number;
    /** Bitfields only: first bit within the struct, and width. */
    readonly bitOffset?: number;
    readonly bitWidth?: number;
  }[];
}
/**
 * Layouts of every named struct (and values of every named enum) in an object's BTF. Members of
 * anonymous structs and unions are listed as the outer struct's own.
 */
export function readBtf(bytes: Uint8Array): {
  readonly structs: readonly StructLayout[];
  readonly enums: readonly {
    readonly name: string;
    readonly values: Readonly<Record<string, number>>;
  }[];
};

export function possibleCpus(): number;
/** Mounts a bpf file system on an existing directory. */
export function mountBpffs(path: string): void;
export function unmount(path: string): void;
/**
 * Moves the calling thread into a new network namespace, with nothing but a loopback device that is down. Other threads stay
 * where they are; a program started afterwards is in the new one as a whole.
 */
export function unshareNetwork(): void;
/** The same with a copy of the mounts: what is mounted and unmounted afterwards is seen nowhere else. */
export function unshareMounts(): void;
/** statfs f_type of a path: 0xcafe4a11 is bpffs, 0x63677270 cgroup2. */
export function fileSystemType(path: string): number;
/**
 * flock(2), exclusive and without waiting, of an open file or folder; false if another open of it holds
 * the lock. Released when the descriptor and every copy a child inherited are closed.
 */
export function lockExclusively(fd: number): boolean;
/**
 * Who listens at the abstract UNIX socket of this name, filled up with zeros to its full length, in the calling process's
 * network namespace; undefined: nobody, or its queue is full.
 */
export function abstractListener(
  name: string,
): { readonly pid: number; readonly uid: number } | undefined;
/**
 * Sends `bytes` (1 to 64 KiB) and open `descriptors` (1 to 253) over a connected UNIX stream socket, without waiting: whoever
 * receives them has the same open files, and the caller keeps its own. Throws EAGAIN if the socket's buffer is full.
 */
export function sendDescriptors(
  socket: number,
  bytes: Uint8Array,
  descriptors: readonly number[],
): void;
/**
 * The next bytes, and the descriptors sent with them, without waiting; undefined if there are none yet, no bytes at the end.
 * The caller must close the descriptors. Bytes of two messages with descriptors are never returned together.
 */
export function receiveDescriptors(
  socket: number,
): { readonly bytes: Uint8Array; readonly descriptors: readonly number[] } | undefined;
/**
 * Cookie of the network namespace `netns` (default: the caller's; another needs CAP_SYS_ADMIN), or undefined before Linux 5.14
 * (SO_NETNS_COOKIE).
 */
export function netnsCookie(options?: { netns?: number }): bigint | undefined;
/**
 * Of each rule of the tables nat and mangle of x_tables (iptables-legacy), of both families, its `struct xt_entry_target` with what
 * follows it up to the next rule. Makes no table that the namespace `netns` (as netnsCookie) does not have. Needs CAP_NET_RAW there, too.
 */
export function xtTargets(options?: { netns?: number }): { table: string; target: Uint8Array }[];
/** IPv4 and IPv6 addresses of its devices besides the loopback device, by index of the device. */
export function netnsAddresses(options?: { netns?: number }): readonly string[];
/** Resolves after every (not sleepable) BPF program that was running when it was called has ended. */
export function waitGracePeriod(): Promise<void>;
/**
 * Runs an iterator program (`iter/...`) over what it iterates, on another thread, and returns what it wrote.
 * `map` is what it iterates if that is a map; `netns` is the descriptor of the network namespace whose sockets
 * it walks (default: the caller's), which needs CAP_SYS_ADMIN. `isWhole` is false if it stopped because
 * `maxBytes` (default 1 MiB) were read; the last record may then be cut.
 */
export function readIterator(
  program: BpfProgram,
  options?: { map?: BpfMap; netns?: number; maxBytes?: number },
): Promise<{ readonly bytes: Uint8Array; readonly isWhole: boolean }>;
/**
 * SOCK_DESTROY (sock_diag(7), CONFIG_INET_DIAG_DESTROY) for each struct inet_diag_req_v2 of `requests`, on
 * another thread and in the network namespace `netns` (default: the caller's; another needs CAP_SYS_ADMIN).
 * Resolves with the errno's name of each that failed (ENOENT: there is no such socket; EOPNOTSUPP: the kernel
 * cannot), undefined for the others.
 */
export function destroySockets(
  requests: Uint8Array,
  options?: { netns?: number },
): Promise<readonly (string | undefined)[]>;
/**
 * connect(2) for sockets of other processes, on another thread, each by a duplicate of a descriptor (pidfd_getfd(2), Linux
 * 5.6; takes CAP_SYS_PTRACE). A request is 48 bytes in the machine's byte order: u64 cookie, u32 process, u32 descriptor, then a
 * struct sockaddr_in or sockaddr_in6 in 28 bytes, and 4 unused ones. Resolves with `CALL: ERRNO` of each that failed, as `connect:
 * ENETUNREACH`, `ENOENT` of each that is closed by now or connected to something else, undefined for the others.
 */
export function connectSockets(requests: Uint8Array): Promise<readonly (string | undefined)[]>;
/** Version of the libbpf that was loaded, e.g. '1.1'. */
export function libbpfVersion(): string;
