// SPDX-License-Identifier: Apache-2.0
// Programs that the kernel has verified.
import type { BpfLink } from './link.js';
import type { BpfMap } from './map.js';

/** A handle of a program in the kernel. */
export interface BpfProgram {
  /** As in the object; of a pinned program the kernel's, which is cut at 15 characters. */
  readonly name: string;
  /** Kernel id, tag (hex) and verified instruction count. */
  readonly info: { readonly id: number; readonly tag: string; readonly verifiedInsns: number };
  /**
   * BPF_PROG_TEST_RUN, on the calling thread. `retval` is the program's; durationNs the mean of `repeat` runs. dataOutSize is
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
  /** `native` is XDP in the device's driver, `generic` in the network stack; without it the kernel selects. */
  attachXdp(ifindex: number, options?: { mode?: 'native' | 'generic' }): BpfLink;
  /** A raw tracepoint of the kernel, by its name (`xdp_exception`). */
  attachTracepoint(name: string): BpfLink;
  /** The program stays in the kernel while the pin does. EEXIST if there is something at `path`. */
  pin(path: string): void;
  /** Lets go of the handle; links keep their program. */
  close(): void;
}

/** ENOENT if there is no such pin; 'ARGUMENT' if it is that of something else. */
export function openPinnedProgram(path: string): BpfProgram;

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

/** Of a loaded program; empty without CAP_SYS_ADMIN, or if there is none. */
export function programName(programId: number): string;
