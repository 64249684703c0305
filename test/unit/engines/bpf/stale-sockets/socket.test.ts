// SPDX-License-Identifier: Apache-2.0
// The records of stale sockets against the struct in the object's BTF, and requests of sock_diag(7) byte by byte.
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  AT,
  decodeStaleSockets,
  encodeDestroyRequests,
  PEER_AT,
  STALE_SOCKET_SIZE,
} from '../../../../../src/engines/bpf/stale-sockets/socket.ts';
import { readBtf } from '../../../../../src/sys/native.ts';
import { bpfObjectPath } from '../../../../../src/sys/package.ts';
import { recordOf } from './records.ts';

const object = bpfObjectPath('find_stale.bpf.o');

describe.skipIf(!existsSync(object))('against the BTF of the object', () => {
  const { structs } = existsSync(object)
    ? readBtf(readFileSync(object))
    : { structs: [] as ReturnType<typeof readBtf>['structs'] };
  const layout = (name: string) => structs.find((struct) => struct.name === name);
  const offsets = (name: string): Record<string, number> =>
    Object.fromEntries(
      layout(name)?.fields.map((field) => [field.name, field.offsetBytes] as const) ?? [],
    );

  test('sizes and offsets are those of the codec', () => {
    expect(layout('stale_socket')?.sizeBytes).toBe(STALE_SOCKET_SIZE);
    expect(offsets('stale_socket')).toMatchObject(AT);
    expect(offsets('socket_peer')).toMatchObject(PEER_AT);
  });
});

const V4 = { service: '10.96.0.10', backend: '10.1.1.2', local: '10.1.1.9' };

test('records are decoded; a cut one is left out', () => {
  const bytes = new Uint8Array([
    ...recordOf({ ...V4, family: 'IPv4', cookie: 7n, netns: 4026532288, device: 3 }),
    ...recordOf({
      service: 'fd00:96::a',
      backend: 'fd00:10::2',
      local: 'fd00:10::9',
      family: 'IPv6',
      protocol: 'TCP',
    }),
    ...new Uint8Array(STALE_SOCKET_SIZE - 1),
  ]);
  expect(decodeStaleSockets(bytes)).toMatchObject([
    {
      cookie: 7n,
      netns: 4026532288,
      device: 3,
      socketFamily: 'IPv4',
      protocol: 'UDP',
      local: { port: 40_000 },
      backend: { port: 8080 },
      service: { family: 'IPv4', address: '10.96.0.10', port: 53, protocol: 'UDP' },
    },
    {
      cookie: 0n,
      socketFamily: 'IPv6',
      protocol: 'TCP',
      service: { family: 'IPv6', address: 'fd00:96::a', port: 53, protocol: 'TCP' },
    },
  ]);
});

const requestHex = (record: Uint8Array): string =>
  Buffer.from(encodeDestroyRequests(decodeStaleSockets(record)))
    .toString('hex')
    .replace(/(.{8})(?=.)/g, '$1 ');

// family protocol ext pad | states | sport dport | src | dst | device | cookie
test.each([
  [
    'an IPv4 socket',
    recordOf({ ...V4, family: 'IPv4', cookie: 0x1_0000_0002n, device: 3 }),
    '02110000 00000000 9c401f90 0a010109 00000000 00000000 00000000 0a010102 00000000 00000000 00000000 03000000 02000000 01000000',
  ],
  [
    'an IPv6 socket with v4-mapped addresses, without a cookie',
    recordOf({ ...V4, family: 'IPv4', socketFamily: 'IPv6', protocol: 'TCP' }),
    '0a060000 00000000 9c401f90 00000000 00000000 0000ffff 0a010109 00000000 00000000 0000ffff 0a010102 00000000 ffffffff ffffffff',
  ],
])('%s is named by addresses, ports, device and cookie', (_, record, hex) => {
  expect(requestHex(record)).toBe(hex);
});
