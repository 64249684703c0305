// SPDX-License-Identifier: Apache-2.0
// The end of the agent's sockets: a drain, a stop, and what a successor is left. Real sockets of the loopback device.
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import type { Dataplane } from '../../../../src/engines/dataplane.ts';
import { keepAddresses } from '../../../../src/engines/userspace/kernel/addresses.ts';
import { openRelayedTcp } from '../../../../src/engines/userspace/kernel/relayed-tcp.ts';
import { backend, clusterIp, planOf, servicePort } from '../bpf/plans.ts';
import { closeAll, dial, opened, reachedAt, textOf, tracked } from './over-sockets.ts';

afterEach(closeAll);

/** Of a device that has each of them. */
const ADDRESS = '127.0.0.77';
const PORT = 23_977;

async function echo() {
  const server = tracked(
    createServer({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => undefined).pipe(socket);
    }),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return backend('127.0.0.1', typeof address === 'object' ? (address?.port ?? 0) : 0);
}

async function serving() {
  const { dataplane } = opened({ listenTcp: openRelayedTcp().listenTcp });
  await dataplane.sync(
    planOf(servicePort('web', [clusterIp('192.0.2.10')], [await echo()])),
    'all',
    [],
  );
  const address = await reachedAt(dataplane);
  const socket = await dial(address);
  return { dataplane, address, socket, said: await said(socket, 'one') };
}

async function said(socket: Socket, text: string): Promise<string> {
  socket.write(text);
  return String((await once(socket, 'data'))[0]);
}

test('a drain closes listeners first, and lasts until the last connection has ended', async () => {
  const { dataplane, address, socket } = await serving();
  let isOver = false;
  const drained = dataplane.drain?.().then(() => {
    isOver = true;
  });
  await expect(dial(address)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  expect(await said(socket, 'two')).toBe('two');
  expect(isOver).toBe(false);
  socket.end();
  await textOf(socket);
  await drained;
  expect(isOver).toBe(true);
});

test('without connections a drain is over at once', async () => {
  const { dataplane } = opened({ listenTcp: openRelayedTcp().listenTcp });
  await dataplane.drain?.();
});

test('a socket that is being opened when listeners close is closed, too', async () => {
  const { dataplane } = opened({ listenTcp: openRelayedTcp().listenTcp });
  const dns = servicePort('dns', [clusterIp('192.0.2.53', 53)], [backend('10.1.1.53', 53)], {
    protocol: 'UDP',
  });
  const syncing = dataplane.sync(planOf(dns), 'all', []);
  await Promise.resolve();
  await dataplane.drain?.();
  await expect(syncing).rejects.toThrow('the dataplane is closed');
  await expect.poll(() => process.getActiveResourcesInfo()).not.toContain('UDPWrap');
});

test('for a successor in the kernel the sockets serve until they are told to end', async () => {
  const { dataplane, address, socket } = await serving();
  const left = dataplane.serveOn?.('kernel');
  dataplane.close();
  expect(await said(await dial(address), 'new')).toBe('new');
  left?.close();
  await expect(dial(address)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  expect(await said(socket, 'still')).toBe('still');
});

/** At an address of its own. */
async function atAddress(): Promise<{
  readonly dataplane: Dataplane;
  readonly removed: string[];
  readonly socket: Socket;
}> {
  const removed: string[] = [];
  const calls = { add: () => true, remove: (address: string) => void removed.push(address) };
  const { listenTcp, end } = openRelayedTcp();
  const { dataplane } = opened({
    ...{ listenTcp, endTcp: end, addresses: keepAddresses(new Set(), calls) },
  });
  const web = servicePort('web', [{ ...clusterIp(ADDRESS), port: PORT }], [await echo()]);
  expect((await dataplane.sync(planOf(web), 'all', [])).failed).toEqual([]);
  const socket = await dial(`${ADDRESS}:${PORT}`);
  expect(await said(socket, 'one')).toBe('one');
  return { dataplane, removed, socket };
}

test('a stop resets connections before it removes their address, or a client would wait', async () => {
  const { dataplane, removed, socket } = await atAddress();
  const error = once(socket, 'error');
  dataplane.close();
  expect(removed).toEqual([ADDRESS]);
  expect((await error)[0]).toMatchObject({ code: 'ECONNRESET' });
});

test('a successor with sockets is left the addresses, and connections go on', async () => {
  const { dataplane, removed, socket } = await atAddress();
  const left = dataplane.serveOn?.('sockets');
  dataplane.close();
  left?.close();
  expect(removed).toEqual([]);
  await expect(dial(`${ADDRESS}:${PORT}`)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  expect(await said(socket, 'still')).toBe('still');
});
