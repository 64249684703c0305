// SPDX-License-Identifier: Apache-2.0
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { listenersOf } from '../../../../src/sys/netlink/listeners.ts';
import type { Request } from '../../../../src/sys/netlink/request.ts';

/** struct inet_diag_msg. */
function diagMessage(family: number, source: readonly number[], port: number, device = 0) {
  const body = new Uint8Array(72);
  const view = new DataView(body.buffer);
  body[0] = family;
  view.setUint16(4, port);
  body.set(source, 8);
  view.setUint32(40, device, true);
  return { type: 20, flags: 0, body };
}

const MAPPED = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 96, 0, 11];

test('sockets at one address count; those at every address, or of one device, do not', () => {
  const asked: Request[] = [];
  const found = listenersOf(['UDP'], (request) => {
    asked.push(request);
    return request.body[0] === 2
      ? [
          diagMessage(2, [10, 96, 0, 10], 53),
          diagMessage(2, [0, 0, 0, 0], 54),
          diagMessage(2, [10, 96, 0, 10], 55, 3),
        ]
      : [diagMessage(10, MAPPED, 56), diagMessage(10, [0xfd, ...new Array(14).fill(0), 1], 57)];
  });
  expect(found).toEqual([
    { protocol: 'UDP', address: '10.96.0.10', port: 53 },
    { protocol: 'UDP', address: '10.96.0.11', port: 56 },
    { protocol: 'UDP', address: 'fd00::1', port: 57 },
  ]);
  // Bound and not connected: TCP_CLOSE.
  expect(asked.map(({ body }) => [body[0], body[1], body[4]])).toEqual([
    [2, 17, 1 << 7],
    [10, 17, 1 << 7],
  ]);
});

test('a kernel that refuses is an error that names the protocol', () => {
  const refuse = (): never => {
    throw new Error('ENOENT');
  };
  expect(() => listenersOf(['SCTP'], refuse)).toThrow('sockets of SCTP cannot be listed: ENOENT');
});

test('the kernel lists real ones', async () => {
  const tcp = createServer().listen(0, '127.0.0.1');
  const udp = createSocket('udp6').bind(0, '::1');
  const wild = createServer().listen(0);
  await Promise.all(
    [tcp, udp, wild].map((one) => new Promise<void>((done) => one.once('listening', () => done()))),
  );
  const portOf = (one: { address(): unknown }): number => (one.address() as { port: number }).port;
  const found = listenersOf(['TCP', 'UDP']);
  expect(found).toContainEqual({ protocol: 'TCP', address: '127.0.0.1', port: portOf(tcp) });
  expect(found).toContainEqual({ protocol: 'UDP', address: '::1', port: portOf(udp) });
  expect(found.map(({ port }) => port)).not.toContain(portOf(wild));
  for (const one of [tcp, udp, wild]) one.close();
});
