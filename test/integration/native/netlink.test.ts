// SPDX-License-Identifier: Apache-2.0
// Netlink sockets: requests, notifications, an overrun, and a clean stop. Devices are made in own namespaces, which
// a child process enters.
import { describe, expect, test } from 'vitest';
import { openNetlink } from '../../../src/sys/native.ts';
import { messagesIn } from '../../../src/sys/netlink/wire.ts';
import { until } from '../../support/until.ts';
import { type ChildBody, inChild } from './support/child.ts';
import { caught } from './support/errors.ts';
import { missing } from './support/fixture.ts';
import { makeNetns } from './support/resources.ts';

/** RTM_GETLINK with NLM_F_REQUEST, and with NLM_F_DUMP if it is one. */
function linkRequest(ifindex: number, flags = 1): Uint8Array {
  const request = new Uint8Array(32);
  const view = new DataView(request.buffer);
  view.setUint32(0, 32, true);
  view.setUint16(4, 18, true);
  view.setUint16(6, flags, true);
  view.setInt32(20, ifindex, true);
  return request;
}

describe('a netlink socket', () => {
  test('a dump is answered before the request returns', () => {
    const socket = openNetlink({ protocol: 0 });
    expect(socket.receive()).toBeUndefined();
    socket.send(linkRequest(0, 0x301));
    const types: number[] = [];
    for (let next = socket.receive(); next !== undefined; next = socket.receive()) {
      types.push(...[...messagesIn(next)].map(({ type }) => type));
    }
    expect(types[0]).toBe(16);
    expect(types.at(-1)).toBe(3);
    socket.close();
    socket.close();
    expect(caught(() => socket.receive()).code).toBe('CLOSED');
    expect(caught(() => socket.send(linkRequest(1))).code).toBe('CLOSED');
  });

  test('tells on the event loop that there is something to receive, as long as there is', async () => {
    let calls = 0;
    let taken = 0;
    const socket = openNetlink({ protocol: 0 }, () => {
      calls++;
      // One at a time: what is left is told of again.
      if (socket.receive() !== undefined) taken++;
    });
    for (let count = 0; count < 20; count++) socket.send(linkRequest(1));
    await until(() => taken === 20, 'all answers');
    expect(calls).toBeGreaterThanOrEqual(20);
    socket.send(linkRequest(1));
    await until(() => taken === 21, 'another answer');
    socket.close();
  });

  test('may be closed by its callback', async () => {
    let calls = 0;
    const socket = openNetlink({ protocol: 0 }, () => {
      calls++;
      socket.close();
    });
    socket.send(linkRequest(1));
    await until(() => calls === 1, 'the callback');
    await new Promise((resolve) => setImmediate(resolve));
    expect(calls).toBe(1);
  });

  test('an exception of the callback is an uncaught one, and the socket goes on', async () => {
    const thrown: unknown[] = [];
    const before = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', (error) => thrown.push(error));
    let taken = 0;
    const socket = openNetlink({ protocol: 0 }, () => {
      if (socket.receive() === undefined) return;
      taken++;
      if (taken === 1) throw new Error('from the callback');
    });
    socket.send(linkRequest(1));
    socket.send(linkRequest(1));
    await until(() => taken === 2, 'both answers');
    socket.close();
    process.removeAllListeners('uncaughtException');
    for (const listener of before) process.on('uncaughtException', listener);
    expect(thrown).toEqual([new Error('from the callback')]);
  });

  test('exchanges off the event loop: a request, then what is left of the answer', async () => {
    const socket = openNetlink({ protocol: 0 });
    const types: number[] = [];
    let next = await socket.exchange(linkRequest(0, 0x301));
    for (; next !== undefined; next = await socket.exchange()) {
      types.push(...[...messagesIn(next)].map(({ type }) => type));
    }
    expect(types[0]).toBe(16);
    expect(types.at(-1)).toBe(3);
    expect(await socket.exchange()).toBeUndefined();
    socket.close();
    expect(caught(() => void socket.exchange()).code).toBe('CLOSED');
  });

  test('an exchange that has begun ends, although the socket is closed', async () => {
    const socket = openNetlink({ protocol: 0 });
    const exchanges = Array.from({ length: 8 }, () => socket.exchange(linkRequest(1)));
    socket.close();
    const answers = await Promise.all(exchanges);
    const types = answers.flatMap((answer) => [...messagesIn(answer!)].map(({ type }) => type));
    expect(types).toEqual(Array(8).fill(16));
  });

  test('what the kernel refuses rejects an exchange', async () => {
    const socket = openNetlink({ protocol: 0 });
    // Longer than any buffer of a socket.
    const refused = socket.exchange(new Uint8Array(64 * 1024 * 1024));
    await expect(refused).rejects.toMatchObject({ code: 'EMSGSIZE', op: 'sendto' });
    socket.close();
  });

  test('invalid arguments are refused', () => {
    expect(caught(() => openNetlink({} as never)).code).toBe('ARGUMENT');
    expect(caught(() => openNetlink({ protocol: 0 }, 1 as never)).code).toBe('ARGUMENT');
    expect(caught(() => openNetlink({ protocol: 9999 })).code).toBe('EPROTONOSUPPORT');
    const socket = openNetlink({ protocol: 0 });
    expect(caught(() => socket.send('text' as never)).code).toBe('ARGUMENT');
    expect(caught(() => void socket.exchange('text' as never)).code).toBe('ARGUMENT');
    socket.close();
  });
});

const watchDevices: ChildBody<{ count: number; receiveBufferSize: number }, unknown> = async (
  native,
  { count, receiveBufferSize },
  require,
) => {
  const { execFileSync } = require('node:child_process');
  const env = { ...process.env };
  delete env['LD_PRELOAD'];
  const ip = (lines: string[]) =>
    execFileSync('ip', ['-batch', '-'], { env, input: lines.join('\n') });
  const seen = { datagrams: 0, overruns: 0, calls: 0 };
  let isDone = () => {};
  const socket = native.openNetlink({ protocol: 0, groups: 1, receiveBufferSize }, () => {
    seen.calls++;
    for (;;) {
      try {
        if (socket.receive() === undefined) break;
        seen.datagrams++;
      } catch (error) {
        if ((error as { code: string }).code !== 'ENOBUFS') throw error;
        seen.overruns++;
      }
    }
    isDone();
  });
  const names = Array.from({ length: count }, (_, index) => `d${index}`);
  // The loop is blocked meanwhile: the socket's buffer takes the notifications.
  ip(names.map((name) => `link add ${name} type bridge`));
  await new Promise<void>((resolve) => {
    isDone = resolve;
  });
  // After an overrun the socket works again.
  const before = seen.datagrams;
  ip([`link set d0 up`]);
  while (seen.datagrams === before) await new Promise((resolve) => setTimeout(resolve, 1));
  socket.close();
  return { ...seen, afterwards: seen.datagrams > before };
};

describe.skipIf(missing !== undefined)('notifications', () => {
  test('of a namespace arrive in the process that is in it', async () => {
    const netns = makeNetns();
    try {
      const seen = await inChild(
        watchDevices,
        { count: 5, receiveBufferSize: 1 << 20 },
        netns.path,
      );
      expect(seen).toMatchObject({ overruns: 0, afterwards: true });
      expect((seen as { datagrams: number }).datagrams).toBeGreaterThan(5);
    } finally {
      netns.release();
    }
  });

  test('that do not fit are dropped by the kernel, which says so', async () => {
    const netns = makeNetns();
    try {
      const seen = await inChild(watchDevices, { count: 50, receiveBufferSize: 4096 }, netns.path);
      expect(seen).toMatchObject({ afterwards: true });
      expect((seen as { overruns: number }).overruns).toBeGreaterThan(0);
    } finally {
      netns.release();
    }
  });
});
