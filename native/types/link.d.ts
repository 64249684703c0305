// SPDX-License-Identifier: Apache-2.0
// Attachments of programs, and who else is attached.
import type { BpfProgram } from './program.js';

/** A handle of one attachment. It ends with its last handle and pin, but for `clsact`, which ends by detach() only. */
export interface BpfLink {
  /** What the kernel made of it. */
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
  /** It stays attached while the pin does. Throws ENOTSUP for clsact, which stays by itself. */
  pin(path: string): void;
  /**
   * Removes the attachment itself (also a pinned one); close() only lets go of our handle. Fine if it
   * is gone already, with its device or its cgroup.
   */
  detach(): void;
  /** Lets go of the handle. */
  close(): void;
}

/** ENOENT if there is no such pin; 'ARGUMENT' if it is that of something else. */
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
