// SPDX-License-Identifier: Apache-2.0
// At the limit of open files: connections go on, new ones are refused and counted, and are served when files are free again.
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { Dataplane } from '../../../../src/engines/dataplane.ts';
import {
  filesOf,
  type Shortage,
  shortageOf,
} from '../../../../src/engines/userspace/kernel/files.ts';
import { relayedTcp } from '../../../../src/engines/userspace/kernel/relayed-tcp.ts';
import { type ListenTcp, streamedTcp } from '../../../../src/engines/userspace/kernel/tcp.ts';
import type { Backend } from '../../../../src/plan/types.ts';
import { limitOfFiles } from '../../../../src/sys/process/files.ts';
import { untilHolds } from '../../../support/until.ts';
import { backend, clusterIp, planOf, servicePort } from '../bpf/plans.ts';
import { closeAll, dial, opened, reachedAt, tracked } from './over-sockets.ts';

afterEach(closeAll);

async function echo(): Promise<Backend> {
  const server = tracked(
    createServer({ allowHalfOpen: true }, (socket) => {
      tracked(socket).on('error', () => undefined);
      socket.pipe(socket);
    }),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return backend('127.0.0.1', typeof address === 'object' ? (address?.port ?? 0) : 0);
}

async function said(socket: Socket, text: string): Promise<string> {
  socket.write(text);
  return String((await once(socket, 'data'))[0]);
}

/** The reset may come before the client is told that it is connected. */
const resetOf = (address: string): Promise<string> =>
  dial(address)
    .then(async (socket) => (await once(socket, 'error'))[0])
    .catch((error: unknown) => error)
    .then((error: NodeJS.ErrnoException) => error.code ?? '');

const RELAYS: readonly (readonly [string, () => ListenTcp])[] = [
  ['streams of Node', () => streamedTcp],
  ['the thread of the addon', relayedTcp],
];

describe.each(RELAYS)('TCP by %s', (_name, listen) => {
  test('beyond the files connections are reset and counted, and served when others have ended', async () => {
    const short: Shortage[] = [];
    // Of eight two are the agent's and one the listener's: two connections.
    const { dataplane } = opened({
      ...{ limit: 8, listenTcp: listen(), onShed: (why: Shortage) => void short.push(why) },
    });
    await dataplane.sync(
      planOf(servicePort('web', [clusterIp('192.0.2.10')], [await echo()])),
      'all',
      [],
    );
    const address = await reachedAt(dataplane);
    const [one, two] = [await dial(address), await dial(address)];
    expect([await said(one, 'a'), await said(two, 'b')]).toEqual(['a', 'b']);
    expect(await resetOf(address)).toBe('ECONNRESET');
    expect([short, await said(one, 'c')]).toEqual([['files'], 'c']);
    const [frontend] = (await dataplane.snapshot()).frontends;
    expect(frontend).toMatchObject({ connections: 2, refused: 1 });
    two.end();
    two.resume();
    await once(two, 'close');
    await untilHolds(async () => expect((await openOf(dataplane))[0]).toBe(1));
    expect(await said(await dial(address), 'd')).toBe('d');
  });
});

const openOf = async (dataplane: Dataplane): Promise<readonly number[]> =>
  (await dataplane.snapshot()).backends.map(({ open = 0 }) => open);

test('a UDP client gets a file of an older flow of its Service, and none of another Service', async () => {
  const short: Shortage[] = [];
  const server = tracked(createSocket('udp4'));
  server.on('message', (text, { port }) => server.send(text, port, '127.0.0.1'));
  server.bind(0, '127.0.0.1');
  await once(server, 'listening');
  const udp = (name: string, address: string) => ({
    ...servicePort(name, [clusterIp(address, 53)], [backend('127.0.0.1', server.address().port)]),
    protocol: 'UDP' as const,
  });
  // Of six two are the agent's and two the listeners': two flows.
  const { dataplane } = opened({ limit: 6, onShed: (why) => void short.push(why) });
  await dataplane.sync(planOf(udp('a', '192.0.2.53'), udp('b', '192.0.2.54')), 'all', []);
  const [a = '', b = ''] = (await dataplane.snapshot()).frontends.map(
    ({ reachedAt: at }) => at?.split(':')[1] ?? '',
  );
  const ask = (port: string): (() => Promise<string>) => {
    const socket = tracked(createSocket('udp4'));
    return async () => {
      socket.send('x', Number(port), '127.0.0.1');
      return String((await once(socket, 'message'))[0]);
    };
  };
  for (const client of [ask(a), ask(a), ask(a)]) expect(await client()).toBe('x');
  expect(short).toEqual([]);
  expect((await openOf(dataplane)).reduce((sum, open) => sum + open, 0)).toBe(2);
  tracked(createSocket('udp4')).send('x', Number(b), '127.0.0.1');
  await untilHolds(() => expect(short).toEqual(['files']));
});

test('listeners leave a quarter of the files to connections, say so, and a retry opens them', async () => {
  // Of eight six are for sockets, of which four may be listeners.
  const { dataplane } = opened({ limit: 8 });
  const ports = [1, 2, 3, 4, 5].map((n) => servicePort(`s${n}`, [clusterIp(`192.0.2.${n}`)], []));
  const backends = [await echo()];
  const served = ports.map((port) => ({
    ...port,
    ...{ cluster: backends, local: backends, serving: backends },
  }));
  const { failed } = await dataplane.sync(planOf(...served), 'all', []);
  expect(failed.map(({ reason }) => reason)).toEqual([
    expect.stringContaining('the agent has too many open files; raise its limit'),
  ]);
  // New ones are opened before others are closed.
  await dataplane.sync(planOf(...served.slice(1)), 'all', []);
  expect((await dataplane.sync(planOf(...served.slice(1)), 'all', [])).failed).toEqual([]);
});

test('what is given back can be taken again, and a listener that fails gives its file back', () => {
  const files = filesOf(1024);
  expect([files.take(768), files.take(1), files.takeForListener()]).toEqual([true, false, false]);
  files.give(768);
  expect([files.takeForListener(), files.take(768), files.take(767)]).toEqual([true, false, true]);
});

test('the errors of a process that lacks files, or local ports', () => {
  const codes = ['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'EAGAIN', 'ECONNREFUSED', undefined];
  const none = undefined;
  expect(codes.map(shortageOf)).toEqual(['files', 'files', 'ports', 'ports', none, none]);
});

test('the limit is that of this process', async () => {
  expect(await limitOfFiles()).toBeGreaterThan(256);
});
