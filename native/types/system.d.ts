// SPDX-License-Identifier: Apache-2.0
// System calls that Node lacks, and facts about this machine.

/** How many values an element of a per-CPU map has. */
export function possibleCpus(): number;

/** Mounts a bpf file system on an existing directory. */
export function mountBpffs(path: string): void;

/** umount2(2); symbolic links are not followed. EINVAL if nothing is mounted there. */
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
 * mallopt(3) for the whole process, with M_TRIM_THRESHOLD and M_MMAP_THRESHOLD: free memory at the end of the heap goes back to the
 * kernel once it is more than `bytes` (at most 33,554,432), and blocks of that size or more are mapped by themselves. Without it glibc
 * raises both with the largest block that is freed. False if malloc has no such option.
 */
export function setTrimThreshold(bytes: number): boolean;

/**
 * madvise(2) with MADV_DONTNEED, for the program's own code and constants: what the process no longer uses is not resident any
 * more. What it uses comes back from the page cache. Pages of libraries and of data stay.
 */
export function releaseProgram(): void;

/** Version of the libbpf that was loaded, e.g. '1.1'. */
export function libbpfVersion(): string;
