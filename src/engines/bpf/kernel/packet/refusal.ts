// SPDX-License-Identifier: Apache-2.0
// A kernel that refuses the packet layer does not keep the agent from serving sockets. But what an earlier agent has
// attached serves packets: there the start fails, so that an upgrade to a version that this kernel refuses stops.
import { readFileSync } from 'node:fs';
import { FairleadError } from '../../../../errors.ts';
import type { Logger } from '../../../../log.ts';
import type { Installation } from '../../../snapshot.ts';
import type { PacketLayer } from './layer.ts';

export interface OpenedPackets {
  readonly layer: PacketLayer | undefined;
  readonly refused: Installation['refused'];
}

export interface RefusalParts {
  /** Packet programs of an earlier agent are attached to devices. */
  readonly isAttached: boolean;
  readonly log: Pick<Logger, 'warn'>;
}

/** The kernel's refusals; other errors are about this instance, and its operator can mend them. */
const REFUSALS: readonly string[] = ['PROGRAM_REFUSED', 'ATTACH_FAILED'];

export async function orWithoutPackets(
  open: () => Promise<PacketLayer>,
  { isAttached, log }: RefusalParts,
): Promise<OpenedPackets> {
  try {
    return { layer: await open(), refused: [] };
  } catch (error) {
    if (isAttached || !(error instanceof FairleadError) || !REFUSALS.includes(error.code)) {
      throw error;
    }
    const { message: reason } = error;
    log.warn({ reason }, 'the packet layer is not loaded: only sockets of this node are served');
    return { layer: undefined, refused: [{ layer: 'packet layer', reason }] };
  }
}

interface KernelFiles {
  /** `1` for PREEMPT_RT; older kernels may be without it. */
  readonly realtime: string;
  /** What `uname -v` prints: `#1 SMP PREEMPT_RT Debian 6.12.43-1 (2025-08-27)`. */
  readonly version: string;
}

const KERNEL: KernelFiles = {
  realtime: '/sys/kernel/realtime',
  version: '/proc/sys/kernel/version',
};

/**
 * The record of the packet that a CPU works on is in memory of that CPU (bpf/packet/packet.h): no other packet may come between.
 * PREEMPT_RT runs softirqs in threads. undefined: this kernel is another one.
 */
export const banOfRealtime = ({ realtime, version } = KERNEL): string | undefined =>
  textOf(realtime).trim() === '1' || /\bPREEMPT[_ ]RT\b/.test(textOf(version))
    ? 'this kernel is PREEMPT_RT: another packet may come between on the same CPU, and packets would be rewritten with the addresses of others'
    : undefined;

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
