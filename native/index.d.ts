// SPDX-License-Identifier: Apache-2.0
// The typed surface of the addon: a thin binding over libbpf and a few system calls. It knows file
// descriptors, bytes and options, and no word of Kubernetes. Hand written; the only description
// TypeScript sees. Everything is synchronous unless it returns a Promise.
//
// Errors: every failure throws an Error with `code` (an errno name such as 'E2BIG', or 'CLOSED',
// 'ARGUMENT'), `errno` (positive number, 0 if none) and `op` (the libbpf or system call). Every
// argument is checked against the map's real sizes before the kernel sees it ('ARGUMENT').
// Every close() is idempotent; using a closed handle throws 'CLOSED'.

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
  /** Every element, read in batches; falls back to get-next-key where the map type has no batches. */
  readAll(): { readonly keys: Uint8Array; readonly values: Uint8Array; readonly count: number };
  /**
   * Shared memory of a BPF_F_MMAPABLE array: element i begins at i × (valueSize rounded up to 8).
   * The same ArrayBuffer each time; it is detached (byteLength 0) when the map is closed.
   */
  mmap(): ArrayBuffer;
  pin(path: string): void;
  close(): void;
}

export interface BpfProgram {
  readonly name: string;
  /** Kernel id, tag (hex) and verified instruction count. */
  readonly info: { readonly id: number; readonly tag: string; readonly verifiedInsns: number };
  /** BPF_PROG_TEST_RUN. `retval` is the program's; durationNs the mean of `repeat` runs. */
  testRun(options: {
    dataIn?: Uint8Array;
    contextIn?: Uint8Array;
    dataOutSize?: number;
    repeat?: number;
  }): {
    readonly retval: number;
    readonly durationNs: number;
    readonly dataOut: Uint8Array;
  };
  /** `attachType` is the kernel's enum bpf_attach_type. cgroupPath must be a cgroup v2 directory. */
  attachCgroup(cgroupPath: string, attachType: number): BpfLink;
  /**
   * tcx link where the kernel has it (6.6), else a clsact filter at the given priority and handle that
   * is replaced in place by update() and removed by detach(). `kind` on the link says which it was.
   */
  attachTc(
    ifindex: number,
    direction: 'ingress' | 'egress',
    options?: { priority?: number; handle?: number; forceClsact?: boolean },
  ): BpfLink;
  attachXdp(ifindex: number, options?: { mode?: 'native' | 'generic' }): BpfLink;
  pin(path: string): void;
  close(): void;
}

export interface BpfLink {
  readonly kind: 'cgroup' | 'tcx' | 'clsact' | 'xdp';
  /** Kernel link id, or 0 for clsact. */
  readonly id: number;
  /** Puts another program in this one's place, atomically: no packet or call sees neither. */
  update(program: BpfProgram): void;
  /** Throws ENOTSUP for clsact (it outlives us by itself). */
  pin(path: string): void;
  /** Removes the attachment itself (also a pinned one); close() only lets go of our handle. */
  detach(): void;
  close(): void;
}

export interface BpfObject {
  /** Sets one `const volatile` variable before load; sizes must be equal. */
  setRodata(variable: string, value: Uint8Array): void;
  setMaxEntries(map: string, maxEntries: number): void;
  /** Uses the map pinned at `path` instead of a new one; false if there is no such pin. Throws
   *  'INCOMPATIBLE' naming every field that differs (type, key, value, max entries, flags). */
  reusePin(map: string, path: string): boolean;
  /** Uses an open map of another object (same compatibility check). */
  reuseMap(map: string, from: BpfMap): void;
  setAutoload(program: string, isLoaded: boolean): void;
  setExpectedAttachType(program: string, attachType: number): void;
  /** Throws code 'VERIFIER' (with `log`) if the kernel refuses a program. */
  load(): void;
  readonly maps: readonly string[];
  readonly programs: readonly { readonly name: string; readonly section: string }[];
  /** Handles of their own: they stay valid after the object is closed. */
  map(name: string): BpfMap;
  program(name: string): BpfProgram;
  close(): void;
}

export function openObject(bytes: Uint8Array, options?: { name?: string }): BpfObject;
export function openPinnedMap(path: string): BpfMap;
export function openPinnedProgram(path: string): BpfProgram;
export function openPinnedLink(path: string): BpfLink;

export interface RingBuffer {
  close(): void;
}
/** Calls `onRecord` on the event loop for each record; a thread waits, the loop never blocks. */
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
/** Layouts of every named struct (and values of every named enum) in an object's BTF. */
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
/** statfs f_type of a path: 0xcafe4a11 is bpffs, 0x63677270 cgroup2. */
export function fileSystemType(path: string): number;
/** Cookie of the calling process's network namespace (SO_NETNS_COOKIE, 5.14), or undefined. */
export function netnsCookie(): bigint | undefined;
/** Resolves after every BPF program that was running when it was called has ended. */
export function waitGracePeriod(): Promise<void>;
/** Version of the libbpf that was loaded, e.g. '1.1'. */
export function libbpfVersion(): string;
