// SPDX-License-Identifier: Apache-2.0
// Keys of backends: two are equal exactly if address and port are, in memory and in text.
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { expect, test } from 'vitest';
import {
  backendKey,
  backendText,
  readBackendKey,
  writeBackendKey,
} from '../../../../../src/engines/bpf/layout/backend-key.ts';
import { decodeBackend, encodeBackend } from '../../../../../src/engines/bpf/layout/layout.ts';
import { hostPort } from '../../../../../src/lib/address-bytes.ts';
import type { Family } from '../../../../../src/model/types.ts';

const ipv6 = fc
  .uint8Array({ minLength: 16, maxLength: 16 })
  .map((bytes) => new ipaddr.IPv6([...bytes]).toRFC5952String());
const addresses: Readonly<Record<Family, fc.Arbitrary<string>>> = { IPv4: fc.ipV4(), IPv6: ipv6 };
const port = fc.integer({ min: 1, max: 65_535 });

test.each(['IPv4', 'IPv6'] as const)(
  '%s: written, it is what the codec reads, and comes back',
  (family) => {
    fc.assert(
      fc.property(addresses[family], port, (address, number) => {
        const key = backendKey({ address, port: number }, family);
        const at = new DataView(new ArrayBuffer(64));
        writeBackendKey(at, 16, key);
        const bytes = new Uint8Array(at.buffer, 16, family === 'IPv4' ? 16 : 32);
        expect(decodeBackend(bytes, family)).toMatchObject({ address, port: number });
        expect(readBackendKey(at, 16, family)).toBe(key);
        expect(backendText(at, 16, family)).toBe(hostPort(address, number));
        const value = {
          address,
          port: number,
          state: 1,
          isLocal: true,
          serviceId: 9,
          generation: 3,
        };
        const encoded = encodeBackend(value, family);
        expect(readBackendKey(new DataView(encoded.buffer), 0, family)).toBe(key);
      }),
    );
  },
);

test('neighbours differ', () => {
  const keyOf = (address: string, number: number, family: Family = 'IPv4') =>
    backendKey({ address, port: number }, family);
  const keys = [
    keyOf('10.0.0.1', 80),
    keyOf('10.0.0.1', 81),
    keyOf('10.0.0.2', 80),
    keyOf('255.255.255.255', 65_535),
    keyOf('fd00::1', 80, 'IPv6'),
    keyOf('fd00::2', 80, 'IPv6'),
    keyOf('fd00::1', 81, 'IPv6'),
  ];
  expect(new Set(keys).size).toBe(keys.length);
});
