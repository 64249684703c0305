// SPDX-License-Identifier: Apache-2.0
// Batches on a socket that stays open: what the kernel refuses, and answers that must not be taken for another batch's.
import { expect, test } from 'vitest';
import { createNftSocket } from '../../../../src/sys/netlink/nft/batch.ts';
import { messagesIn, request, viewOf } from '../../../../src/sys/netlink/wire.ts';

const ENOENT = 2;
const EBUSY = 16;
const DELETE_CHAIN = { type: 5, flags: 0, body: Uint8Array.of(2, 0, 0, 0) };

/** An answer with an error number, as for a message that is refused. */
function refusal(errno: number): Uint8Array {
  const body = new Uint8Array(20);
  viewOf(body).setInt32(0, -errno, true);
  return request({ type: 2, flags: 0 }, body);
}

function memorySocket(...answers: readonly (readonly (Uint8Array | Error)[])[]) {
  const sent: Uint8Array[] = [];
  let [opened, closed] = [0, 0];
  let waiting: (Uint8Array | Error)[] = [];
  const next = (): Uint8Array | undefined => {
    const answer = waiting.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const socket = createNftSocket(() => {
    opened += 1;
    return {
      exchange: async (message) => {
        if (message !== undefined) sent.push(message);
        waiting.push(...(answers[sent.length - 1] ?? []));
        return next();
      },
      receive: next,
      close() {
        closed += 1;
        waiting = [];
      },
    };
  });
  return { socket, sent, counts: () => [opened, closed] };
}

test('a batch begins and ends with a message for the subsystem, and the socket stays open', async () => {
  const { socket, sent, counts } = memorySocket();
  expect(await socket.send([DELETE_CHAIN, DELETE_CHAIN])).toBeUndefined();
  expect(await socket.send([DELETE_CHAIN])).toBeUndefined();
  const [first = new Uint8Array(), second = new Uint8Array()] = sent;
  const types = [...messagesIn(first)].map(({ type }) => type);
  expect(types).toEqual([0x10, 0xa05, 0xa05, 0x11]);
  expect([...messagesIn(second)].map(({ type }) => type)).toEqual([0x10, 0xa05, 0x11]);
  expect(counts()).toEqual([1, 0]);
  socket.close();
  expect(counts()).toEqual([1, 1]);
});

test('the first refusal is told, and the others are not taken for those of the next batch', async () => {
  const { socket } = memorySocket([refusal(EBUSY), refusal(ENOENT)], []);
  expect(await socket.send([DELETE_CHAIN, DELETE_CHAIN])).toBe('EBUSY');
  expect(await socket.send([DELETE_CHAIN])).toBeUndefined();
});

test('after an answer is lost another socket is opened', async () => {
  const lost = new Error('ENOBUFS');
  const { socket, counts } = memorySocket([refusal(ENOENT), lost, refusal(EBUSY)], []);
  await expect(socket.send([DELETE_CHAIN])).rejects.toThrow('ENOBUFS');
  expect(counts()).toEqual([1, 1]);
  expect(await socket.send([DELETE_CHAIN])).toBeUndefined();
  expect(counts()).toEqual([2, 1]);
});
