// SPDX-License-Identifier: Apache-2.0
// One netlink request and the whole answer to it. The kernel answers before send() returns.
import { getSystemErrorName } from 'node:util';
import * as native from '../native.ts';
import { DONE_MESSAGE, ERROR_MESSAGE, type Message, messagesIn, request, u32 } from './wire.ts';

export interface Request {
  readonly protocol: number;
  readonly type: number;
  /** NLM_F_*: those of a dump, or of a change. */
  readonly flags: number;
  readonly body: Uint8Array;
  /** Open descriptor of a network namespace; absent = this process's own. */
  readonly netns?: number;
}

export type NetlinkRequest = (request: Request) => readonly Message[];

export const NLM_F = { ACK: 0x4, DUMP: 0x300, EXCL: 0x200, CREATE: 0x400 };

/** Throws an Error whose message is the errno's name. */
export function netlinkRequest({
  protocol,
  type,
  flags,
  body,
  netns,
}: Request): readonly Message[] {
  const socket = native.openNetlink({ protocol, ...(netns !== undefined && { netns }) });
  try {
    return askOn(socket, { type, flags, body });
  } finally {
    socket.close();
  }
}

/** The same on a socket that stays open, and that nobody else uses meanwhile. */
export function askOn(
  socket: Pick<native.NetlinkSocket, 'send' | 'receive'>,
  { type, flags, body }: Pick<Request, 'type' | 'flags' | 'body'>,
): readonly Message[] {
  socket.send(request({ type, flags }, body));
  return answerOf(socket);
}

function answerOf(socket: Pick<native.NetlinkSocket, 'receive'>): readonly Message[] {
  const messages: Message[] = [];
  for (;;) {
    const datagram = socket.receive();
    if (datagram === undefined) return messages;
    for (const message of messagesIn(datagram)) {
      const errno = (u32(message.body) ?? 0) | 0;
      if (message.type === ERROR_MESSAGE && errno !== 0) throw new Error(getSystemErrorName(errno));
      if (message.type === DONE_MESSAGE || message.type === ERROR_MESSAGE) return messages;
      messages.push(message);
    }
  }
}
