// SPDX-License-Identifier: Apache-2.0
// What the addon is asked to connect, byte by byte, and the descriptors that the iterator finds.
import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { bridgeSubnets } from '../../../../../../src/engines/bpf/kernel/stale-sockets/bridges.ts';
import {
  connectOutcome,
  decodeHolders,
  encodeConnectRequests,
  HOLDER_AT,
  HOLDER_SIZE,
  HOLDERS_OBJECT,
} from '../../../../../../src/engines/bpf/kernel/stale-sockets/connecting.ts';
import { isOnBridge } from '../../../../../../src/engines/bpf/stale-sockets/keeping.ts';
import { decodeStaleSockets } from '../../../../../../src/engines/bpf/stale-sockets/socket.ts';
import { readBtf } from '../../../../../../src/sys/native.ts';
import type { Link, LinkAddress } from '../../../../../../src/sys/netlink/records.ts';
import { bpfObjectPath } from '../../../../../../src/sys/package.ts';
import { recordOf, V4, V6 } from '../../stale-sockets/records.ts';

const object = bpfObjectPath(HOLDERS_OBJECT);
test.skipIf(!existsSync(object))('offsets are those of the BTF of the object', () => {
  const holder = readBtf(readFileSync(object)).structs.find(({ name }) => name === 'holder');
  expect(holder?.sizeBytes).toBe(HOLDER_SIZE);
  const offsets = holder?.fields.map(({ name, offsetBytes }) => [name, offsetBytes]);
  expect(Object.fromEntries(offsets ?? [])).toEqual(HOLDER_AT);
});

test.each([
  ['the socket goes on', undefined, 'connected'],
  ['the hook refuses it before Linux 6.1', 'connect: EPERM', 'refused'],
  ['the hook refuses it', 'connect: ECONNREFUSED', 'refused'],
  ['the hook has let it pass', 'connect: ENETUNREACH', 'failed'],
  ['a security module forbids it before the hook is asked', 'connect: EACCES', 'gone'],
  ['the process is gone', 'ENOENT', 'gone'],
  ['the descriptor may not be taken', 'pidfd_getfd: EPERM', 'gone'],
])('%s: %s', (_, failure, outcome) => expect(connectOutcome(failure)).toBe(outcome));

test('of two descriptors of a socket one is used; a record that is cut is left out', () => {
  const words = new Uint32Array([7, 0, 100, 3, 7, 0, 200, 4, 8, 1, 300, 5, 9, 0, 1]);
  expect([...decodeHolders(new Uint8Array(words.buffer))]).toEqual([
    [7n, { process: 200, descriptor: 4 }],
    [0x1_0000_0008n, { process: 300, descriptor: 5 }],
  ]);
});

test.each([
  ['IPv4', V4, '0200 0035 0a60000a'],
  ['IPv6', V6, '0a00 0035 00000000 fd00000000000000000000000000000a'],
  [
    'v4-mapped',
    { ...V4, socketFamily: 'IPv6' } as const,
    '0a00 0035 00000000 00000000000000000000ffff0a60000a',
  ],
])('a request of %s', (_, spec, address) => {
  const [socket] = decodeStaleSockets(recordOf({ ...spec, cookie: 7n }));
  const holder = { process: 0x1234, descriptor: 5 };
  const bytes = encodeConnectRequests([{ socket: socket!, holder }]);
  const head = '0700000000000000 34120000 05000000';
  const text = `${head} ${address}`.replaceAll(' ', '');
  expect(Buffer.from(bytes).toString('hex')).toBe(text.padEnd(96, '0'));
});

test('datagrams to a backend on a bridge of the node do not pass the node', () => {
  const link = (ifindex: number, kind: string | undefined) => [ifindex, { kind } as Link] as const;
  const at = (address: string, prefixLength: number, family: 'IPv4' | 'IPv6') =>
    ({ address, prefixLength, family }) as LinkAddress;
  const bridges = bridgeSubnets({
    links: new Map([link(1, undefined), link(2, 'bridge'), link(3, 'bridge')]),
    addresses: new Map([
      [1, [at('10.0.0.1', 8, 'IPv4')]],
      [2, [at('10.1.1.1', 24, 'IPv4'), at('fd00::1', 64, 'IPv6')]],
    ]),
  });
  const isOn = (spec: typeof V4 | typeof V6, backend: string): boolean =>
    isOnBridge(decodeStaleSockets(recordOf({ ...spec, backend }))[0]!, bridges);
  expect([isOn(V4, '10.1.1.200'), isOn(V6, 'fd00::2')]).toEqual([true, true]);
  expect([isOn(V4, '10.1.2.2'), isOn(V6, 'fd01::2')]).toEqual([false, false]);
});
