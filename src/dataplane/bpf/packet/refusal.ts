// SPDX-License-Identifier: Apache-2.0
// A kernel that refuses the packet layer does not keep the agent from serving sockets. But what an earlier agent has
// attached serves packets: there the start fails, so that an upgrade to a version that this kernel refuses stops.
import { FairleadError } from '../../../errors.ts';
import type { Logger } from '../../../log.ts';
import type { Installation } from '../../snapshot.ts';
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
