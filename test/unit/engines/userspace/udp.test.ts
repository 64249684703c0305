// SPDX-License-Identifier: Apache-2.0
// UDP over real sockets: each client keeps its backend and gets its own answers, flows end by time and with their backend.
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { afterEach, expect, test } from 'vitest';
import type { Clock } from '../../../../src/lib/clock.ts';
import type { Backend, Plan } from '../../../../src/plan/types.ts';
import { SYSTEM_CLOCK } from '../../../../src/sys/clock.ts';
import { untilHolds } from '../../../support/until.ts';
import { backend, clusterIp, planOf, servicePort } from '../bpf/plans.ts';
import { closeAll, opened, reachedAt, tracked } from './over-sockets.ts';

afterEach(closeAll);

const CLIENTS = 1_000;

const bound = async (): Promise<Socket> => {
  const socket = tracked(createSocket('udp4'));
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return socket;
};

/** Answers `name:text`; silent for `-`. */
async function named(name: string): Promise<Backend> {
  const socket = await bound();
  socket.on('message', (text, { port, address }) => {
    if (String(text) !== '-') socket.send(`${name}:${text}`, port, address);
  });
  return backend('127.0.0.1', socket.address().port);
}

const dns = (backends: readonly Backend[]): Plan =>
  planOf({ ...servicePort('dns', [clusterIp('192.0.2.53', 53)], backends), protocol: 'UDP' });

async function ask(socket: Socket, at: string, text: string): Promise<string> {
  const [host, port] = at.split(':');
  const answer = once(socket, 'message');
  socket.send(text, Number(port), host);
  return String((await answer)[0]);
}

/** What waits is run when the test says so. */
function steppedClock(): Clock & { step(ms: number): void } {
  let nowMs = 0;
  let waiting: { readonly atMs: number; readonly action: () => void }[] = [];
  return {
    ...SYSTEM_CLOCK,
    monotonicMs: () => nowMs,
    after(delayMs, action) {
      const entry = { atMs: nowMs + delayMs, action };
      waiting.push(entry);
      return () => {
        waiting = waiting.filter((one) => one !== entry);
      };
    },
    step(ms) {
      nowMs += ms;
      const due = waiting.filter(({ atMs }) => atMs <= nowMs);
      waiting = waiting.filter((one) => !due.includes(one));
      for (const { action } of due) action();
    },
  };
}

const openFlows = async (dataplane: ReturnType<typeof opened>['dataplane']): Promise<number> => {
  const { backends } = await dataplane.snapshot();
  return backends.reduce((sum, { open = 0 }) => sum + open, 0);
};

test('a thousand clients get their own answers, each of the backend that it began with', async () => {
  const { dataplane } = opened();
  await dataplane.sync(dns([await named('a'), await named('b')]), 'all', []);
  const at = await reachedAt(dataplane);
  const clients: { readonly socket: Socket; readonly first: string }[] = [];
  for (let begun = 0; begun < CLIENTS; begun += 50) {
    const some = Array.from({ length: 50 }, async (_, index) => {
      const socket = await bound();
      return { socket, first: await ask(socket, at, `${begun + index}`) };
    });
    clients.push(...(await Promise.all(some)));
  }
  expect(clients.map(({ first }) => first.split(':')[1])).toEqual(
    Array.from({ length: CLIENTS }, (_, index) => `${index}`),
  );
  expect(new Set(clients.map(({ first }) => first[0]))).toEqual(new Set(['a', 'b']));
  for (const { socket, first } of clients) {
    expect(await ask(socket, at, 'again')).toBe(`${first[0]}:again`);
  }
  expect(await openFlows(dataplane)).toBe(CLIENTS);
});

test('a flow ends after 30 seconds without an answer, and after two minutes with one', async () => {
  const clock = steppedClock();
  const { dataplane } = opened({ clock });
  await dataplane.sync(dns([await named('a')]), 'all', []);
  const at = await reachedAt(dataplane);
  const [silent, answered] = [await bound(), await bound()];
  silent.send('-', Number(at.split(':')[1]), '127.0.0.1');
  expect(await ask(answered, at, 'x')).toBe('a:x');
  await untilHolds(async () => expect(await openFlows(dataplane)).toBe(2));
  clock.step(29_000);
  expect(await openFlows(dataplane)).toBe(2);
  clock.step(5_000);
  expect(await openFlows(dataplane)).toBe(1);
  clock.step(85_000);
  expect(await openFlows(dataplane)).toBe(1);
  clock.step(5_000);
  expect(await openFlows(dataplane)).toBe(0);
});

test('a client whose backend is gone gets another one, others keep theirs', async () => {
  const { dataplane } = opened();
  const [a, b] = [await named('a'), await named('b')];
  await dataplane.sync(dns([a]), 'all', []);
  const at = await reachedAt(dataplane);
  const old = await bound();
  expect(await ask(old, at, '1')).toBe('a:1');
  await dataplane.sync(dns([a, b]), 'all', []);
  expect(await ask(old, at, '2')).toBe('a:2');
  await dataplane.sync(dns([b]), 'all', []);
  expect(await ask(old, at, '3')).toBe('b:3');
});
