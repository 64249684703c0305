// SPDX-License-Identifier: Apache-2.0
// The dataplane over real sockets of the loopback device, with both relays: TCP with its ends and resets, changes while connections are open, ports
// that are taken, and restarts.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { Shortage } from '../../../../src/engines/userspace/kernel/files.ts';
import { relayedTcp } from '../../../../src/engines/userspace/kernel/relayed-tcp.ts';
import { type ListenTcp, streamedTcp } from '../../../../src/engines/userspace/kernel/tcp.ts';
import type { Backend, Plan } from '../../../../src/plan/types.ts';
import { untilHolds } from '../../../support/until.ts';
import { backend, clusterIp, localNodePort, planOf, servicePort } from '../bpf/plans.ts';
import * as over from './over-sockets.ts';
import { closeAll, dial, reachedAt, textOf, tracked } from './over-sockets.ts';

afterEach(closeAll);

const listening = async (server: Server): Promise<Backend> => {
  tracked(server).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return backend('127.0.0.1', typeof address === 'object' ? (address?.port ?? 0) : 0);
};

/** Says its name, then echoes, and ends when the client has. */
const named = (name: string, onConnection: (socket: Socket) => void = () => undefined) =>
  listening(
    createServer({ allowHalfOpen: true }, (socket) => {
      tracked(socket).on('error', () => undefined);
      socket.write(`${name};`);
      socket.pipe(socket);
      onConnection(socket);
    }),
  );

const web = (backends: readonly Backend[]): Plan =>
  planOf(servicePort('web', [clusterIp('192.0.2.10')], backends));

/** Ports of established sockets that wait for the timer of keep-alive (2), by /proc/net/tcp. */
const keptAlive = () =>
  readFileSync('/proc/self/net/tcp', 'utf8')
    .split('\n')
    .flatMap((line) => {
      const [, local = '', remote = '', state, , timer = ''] = line.trim().split(/ +/);
      const portOf = (end: string): number => Number.parseInt(end.split(':')[1] ?? '', 16);
      const isKept = state === '01' && timer.startsWith('02:');
      return isKept ? [{ local: portOf(local), remote: portOf(remote) }] : [];
    });

const RELAYS: readonly (readonly [string, () => ListenTcp])[] = [
  ['streams of Node', () => streamedTcp],
  ['the thread of the addon', relayedTcp],
];

describe.each(RELAYS)('relayed by %s', (_name, listenTcp) => {
  const opened = (parts: over.OpenedParts = {}) =>
    over.opened({ listenTcp: listenTcp(), ...parts });

  test('bytes go both ways, and the end of one direction leaves the other open', async () => {
    const { dataplane } = opened();
    await dataplane.sync(web([await named('a')]), 'all', []);
    const socket = await dial(await reachedAt(dataplane));
    const big = 'x'.repeat(1_000_000);
    socket.end(big);
    expect(await textOf(socket)).toBe(`a;${big}`);
  });

  test('a peer that vanishes is noticed: both sockets of a connection are kept alive', async () => {
    const { dataplane } = opened();
    const server = await named('a');
    await dataplane.sync(web([server]), 'all', []);
    const target = await reachedAt(dataplane);
    const port = Number(target.split(':').at(-1));
    const socket = await dial(target);
    await once(socket, 'data');
    await untilHolds(() => {
      const alive = keptAlive();
      expect(alive.some(({ local }) => local === port)).toBe(true);
      expect(alive.some(({ remote }) => remote === server.port)).toBe(true);
    });
  });

  test('a reset of either side is passed on as a reset', async () => {
    const { dataplane } = opened();
    const atBackend: Socket[] = [];
    const server = await named('a', (socket) => atBackend.push(socket));
    await dataplane.sync(web([server]), 'all', []);

    const first = await dial(await reachedAt(dataplane));
    await once(first, 'data');
    const reset = once(first, 'error');
    atBackend[0]?.resetAndDestroy();
    expect((await reset)[0]).toMatchObject({ code: 'ECONNRESET' });

    const second = await dial(await reachedAt(dataplane));
    await once(second, 'data');
    const other = once(atBackend[1]!, 'error');
    second.resetAndDestroy();
    expect((await other)[0]).toMatchObject({ code: 'ECONNRESET' });
  });

  test('established connections go on while backends change, and after their Service is gone', async () => {
    const { dataplane } = opened();
    const [a, b] = [await named('a'), await named('b')];
    await dataplane.sync(web([a]), 'all', []);
    const address = await reachedAt(dataplane);
    const old = await dial(address);
    await once(old, 'data');

    await dataplane.sync(web([b]), 'all', []);
    expect(await reachedAt(dataplane)).toBe(address);
    const fresh = await dial(address);
    expect(String((await once(fresh, 'data'))[0])).toBe('b;');

    await dataplane.sync(planOf(), 'all', []);
    await expect(dial(address)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    old.end('still here');
    expect(await textOf(old)).toBe('still here');
  });

  test('without endpoints a connection is refused, and with one again it is served at the same port', async () => {
    const { dataplane } = opened();
    const a = await named('a');
    await dataplane.sync(web([a]), 'all', []);
    const address = await reachedAt(dataplane);
    await dataplane.sync(web([]), 'all', []);
    await expect(dial(address)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await dataplane.sync(web([a]), 'all', []);
    const socket = await dial(address);
    expect(String((await once(socket, 'data'))[0])).toBe('a;');
  });

  test('a backend that refuses resets the client', async () => {
    const { dataplane } = opened();
    const closed = createServer();
    const gone = await listening(closed);
    closed.close();
    await dataplane.sync(web([gone]), 'all', []);
    // It may come before the client knows that it is connected.
    const reset = dial(await reachedAt(dataplane)).then(async (socket) => {
      throw (await once(socket, 'error'))[0];
    });
    await expect(reset).rejects.toMatchObject({ code: 'ECONNRESET' });
  });

  test('a port that is taken fails its frontend alone, and a retry serves it', async () => {
    const { dataplane } = opened();
    const a = await named('a');
    const thief = createServer();
    const { port } = await listening(thief);
    const node = [{ family: 'IPv4', address: '127.0.0.1' }] as const;
    const plan = planOf(
      servicePort('web', [clusterIp('192.0.2.10')], [a]),
      servicePort('other', [localNodePort(port)], [a], { local: [a] }),
    );
    const { failed } = await dataplane.sync(plan, 'all', node);
    expect(failed).toMatchObject([{ service: 'default/other', code: 'WRITE_FAILED' }]);
    expect(failed[0]?.reason).toMatch(
      /^cannot listen at 127\.0\.0\.1:\d+\/TCP: another process has this port; end that process/,
    );
    await dial(await reachedAt(dataplane));

    thief.close();
    await once(thief, 'close');
    expect((await dataplane.sync(plan, ['default/other'], node)).failed).toEqual([]);
    await dial(`127.0.0.1:${port}`);
  });

  test('a restart has the same port, and another one where that has been taken', async () => {
    const a = await named('a');
    const first = opened();
    await first.dataplane.sync(web([a]), 'all', []);
    const address = await reachedAt(first.dataplane);
    first.dataplane.close();
    const second = opened({ remembered: first.remembered() });
    await second.dataplane.sync(web([a]), 'all', []);
    expect(await reachedAt(second.dataplane)).toBe(address);
    second.dataplane.close();

    const thief = tracked(createServer());
    await untilHolds(async () => {
      thief.listen(Number(address.split(':')[1]), '127.0.0.1');
      await once(thief, 'listening');
    });
    const third = opened({ remembered: second.remembered() });
    await third.dataplane.sync(web([a]), 'all', []);
    const other = await reachedAt(third.dataplane);
    expect(other).not.toBe(address);
    await dial(other);
  });

  test('connections are counted, and those that are open', async () => {
    const { dataplane } = opened();
    const a = await named('a');
    await dataplane.sync(web([a]), 'all', []);
    const address = await reachedAt(dataplane);
    const [one, two] = [await dial(address), await dial(address)];
    await Promise.all([once(one, 'data'), once(two, 'data')]);
    const seen = async () => {
      const { frontends, backends } = await dataplane.snapshot();
      return [frontends[0]?.connections, backends[0]?.connections, backends[0]?.open];
    };
    expect(await seen()).toEqual([2, 2, 2]);
    one.end();
    await textOf(one);
    await untilHolds(async () => expect(await seen()).toEqual([2, 2, 1]));
  });
});

test('connections beyond the limit of files are reset, counted as refused, and reported', async () => {
  const short: Shortage[] = [];
  const { dataplane } = over.opened({
    listenTcp: relayedTcp({ mostConnections: 1 }),
    onShed: (why) => short.push(why),
  });
  await dataplane.sync(web([await named('a')]), 'all', []);
  const address = await reachedAt(dataplane);
  await once(await dial(address), 'data');
  const reset = dial(address).then(async (socket) => {
    throw (await once(socket, 'error'))[0];
  });
  await expect(reset).rejects.toMatchObject({ code: 'ECONNRESET' });
  await untilHolds(() => expect(short).toEqual(['files']));
  const { frontends } = await dataplane.snapshot();
  expect(frontends[0]).toMatchObject({ connections: 1, refused: 1 });
});
