// SPDX-License-Identifier: Apache-2.0
// Changes of nf_tables in this process's network namespace, as one transaction: all of them take effect or none. On a thread
// of the pool, because the kernel works before it takes the next message.
import { getSystemErrorName } from 'node:util';
import * as native from '../../native.ts';
import { ERROR_MESSAGE, joined, messagesIn, request, u32 } from '../wire.ts';

/** One change. */
export interface NftMessage {
  /** NFT_MSG_*. */
  readonly type: number;
  /** NLM_F_*, besides NLM_F_REQUEST. */
  readonly flags: number;
  readonly body: Uint8Array;
}

/** @returns the errno's name of the first change that is refused; undefined: all are done. Rejects where nothing can be sent. */
export type SendBatch = (messages: readonly NftMessage[]) => Promise<string | undefined>;

const NETLINK_NETFILTER = 12;
const NFTABLES = 10;
const BATCH_BEGIN = 0x10;
const BATCH_END = 0x11;

/** The subsystem's number, in network order. */
const BATCH_BODY = Uint8Array.of(0, 0, 0, NFTABLES);

type Socket = Pick<native.NetlinkSocket, 'exchange' | 'receive' | 'close'>;

/** For one batch at a time. */
export interface NftSocket {
  readonly send: SendBatch;
  close(): void;
}

/**
 * Kept open between batches: whoever closes a netlink socket waits until the kernel has freed what the last transaction has
 * removed, 10 to 20 ms.
 */
export function createNftSocket(
  open: (options: { protocol: number }) => Socket = native.openNetlink,
): NftSocket {
  let socket: Socket | undefined;
  const close = (): void => {
    socket?.close();
    socket = undefined;
  };
  return {
    async send(messages) {
      socket ??= open({ protocol: NETLINK_NETFILTER });
      try {
        return await refusalOf(socket, batchOf(messages));
      } catch (error) {
        // There may be answers left, which are no other batch's.
        close();
        throw error;
      }
    },
    close,
  };
}

/** The kernel answers refusals alone, each in a datagram, before sendto(2) returns. */
async function refusalOf(socket: Socket, batch: Uint8Array): Promise<string | undefined> {
  let first: string | undefined;
  let answer = await socket.exchange(batch);
  while (answer !== undefined) {
    first ??= errnoIn(answer);
    answer = socket.receive();
  }
  return first;
}

export const batchOf = (messages: readonly NftMessage[]): Uint8Array =>
  joined([
    request({ type: BATCH_BEGIN, flags: 0 }, BATCH_BODY),
    ...messages.map(({ type, flags, body }, index) =>
      request({ type: (NFTABLES << 8) | type, flags, sequence: index + 1 }, body),
    ),
    request({ type: BATCH_END, flags: 0, sequence: messages.length + 1 }, BATCH_BODY),
  ]);

function errnoIn(answer: Uint8Array): string | undefined {
  for (const { type, body } of messagesIn(answer)) {
    const errno = (u32(body) ?? 0) | 0;
    if (type === ERROR_MESSAGE && errno !== 0) return getSystemErrorName(errno);
  }
  return undefined;
}
