// SPDX-License-Identifier: Apache-2.0
// The codecs of direct return against the C structs, and bytes by hand.
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import * as layout from '../../../../../src/engines/bpf/direct-return/direct-layout.ts';
import { readBtf } from '../../../../../src/sys/native.ts';
import { bpfObjectPath } from '../../../../../src/sys/package.ts';

const object = bpfObjectPath('packet.bpf.o');
const isBuilt = existsSync(object);
const btf = isBuilt ? readBtf(readFileSync(object)) : { structs: [], enums: [] };
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const V4_MAPPED = '00000000000000000000ffff';

describe.skipIf(!isBuilt)('against the BTF of the object', () => {
  const offsets = (name: string) =>
    Object.fromEntries(
      btf.structs
        .find((struct) => struct.name === name)
        ?.fields.map((field) => [field.name, field.offsetBytes]) ?? [],
    );

  test('fields are at the offsets that the codecs use', () => {
    expect(offsets('peer_key')).toEqual({ address: 0 });
    expect(offsets('peer')).toEqual({ port: 0, path_mtu: 2, path_mtu_at: 4 });
    expect(offsets('cookies')).toEqual({ key: 0, keys: 32, is_sent: 33, takes_none: 34, pad: 35 });
    expect(offsets('backend_node')).toEqual({ address: 0 });
    expect(offsets('local_backend_key')).toEqual({ address: 0, service_id: 16, port: 20, pad: 22 });
    expect(offsets('local_backend')).toEqual({ backend_id: 0 });
  });
});

test('the address of a node', () => {
  expect(hex(layout.encodeNodeAddress('192.0.2.11'))).toBe(`${V4_MAPPED}c000020b`);
  const ipv6 = layout.encodeNodeAddress('2001:db8::11');
  expect(hex(ipv6)).toBe('20010db8000000000000000000000011');
  expect(layout.decodeNodeAddress(ipv6)).toBe('2001:db8::11');
  expect(layout.decodeNodeAddress(new Uint8Array(16))).toBeUndefined();
});

test('a peer', () => {
  expect(hex(layout.encodePeer({ port: 6081 }))).toBe('c117000000000000');
  expect(layout.decodePeer(Buffer.from('c1177805ff000000', 'hex'))).toEqual({
    port: 6081,
    pathMtu: 1400,
  });
});

test('the keys of cookies', () => {
  const keys = [new Uint8Array(16).fill(0xaa), new Uint8Array(16).fill(0xbb)];
  const both = { keys, isSent: true, takesNone: false };
  const bytes = layout.encodeCookies(both);
  expect(hex(bytes)).toBe(`${'aa'.repeat(16)}${'bb'.repeat(16)}0201000000000000`);
  expect(layout.decodeCookies(bytes)).toEqual(both);
  const coming = { keys: keys.slice(1), isSent: false, takesNone: true };
  expect(layout.decodeCookies(layout.encodeCookies(coming))).toEqual(coming);
});

test('a backend of this node', () => {
  const key = { address: '10.244.0.10', port: 8080, serviceId: 7 };
  expect(hex(layout.encodeLocalBackendKey(key))).toBe(`${V4_MAPPED}0af4000a07000000901f0000`);
});
