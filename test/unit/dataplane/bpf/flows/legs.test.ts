// SPDX-License-Identifier: Apache-2.0
// Keys and values of legs, from bytes written by hand.
import { expect, test } from 'vitest';
import { flowText, natText, snatText, tupleText } from '../../../../support/dataplane/leg-text.ts';

const bytes = (hex: string): Uint8Array => Buffer.from(hex.replaceAll(' ', ''), 'hex');
const V6 = '20010db8000000000000000000000009';

test('a key', () => {
  expect(tupleText(bytes('c6336409 cb00710a 409c 5000 06 000000'), 'IPv4')).toEqual({
    source: { address: '198.51.100.9', port: 40_000 },
    destination: { address: '203.0.113.10', port: 80 },
    protocol: 'TCP',
  });
  expect(tupleText(bytes(`${V6} ${V6} 409c 5000 11 000000`), 'IPv6')).toEqual({
    source: { address: '2001:db8::9', port: 40_000 },
    destination: { address: '2001:db8::9', port: 80 },
    protocol: 'UDP',
  });
});

test('the legs of a flow', () => {
  const head = '01000000 02000000 03000000 04000000 05000000 06000000';
  const flow = `${head} 0700000000000000 0800000000000000 901f 0900 409c 02 01 0a010105 00000000`;
  expect(flowText(bytes(flow), 'IPv4')).toEqual({
    ...{ backendId: 2, serviceId: 3, frontendId: 4, seenSeconds: 5, bornSeconds: 6 },
    ...{ packets: 7, bytes: 8, backend: { address: '10.1.1.5', port: 8080 }, generation: 9 },
    ...{ clientPort: 40_000, state: 'half-closed' },
    ...{ isMasqueraded: true, hasFin: false, hasReset: false },
  });
  const counts = '0300000000000000 0400000000000000';
  const nat = `01000000 02000000 ${counts} 5000 48ee 409c 1f 00 00000000 00000000 cb00710a c000020b`;
  expect(natText(bytes(nat), 'IPv4')).toEqual({
    ...{ seenSeconds: 2, packets: 3, bytes: 4, clientPort: 40_000 },
    frontend: { address: '203.0.113.10', port: 80 },
    snat: { address: '192.0.2.11', port: 61_000 },
    ...{ isClientSource: true, isMasqueraded: true, hasReplied: true },
    ...{ hasFin: true, hasReset: true },
  });
  expect(natText(bytes(nat.replace('48ee', '0000')), 'IPv4').snat).toBeUndefined();
  expect(snatText(bytes('01000000 02000000 409c 0901 c6336409'), 'IPv4')).toMatchObject({
    ...{ isInTimeWait: true, isReserved: true, isAnswered: false },
  });
  expect(snatText(bytes('01000000 02000000 409c 0103 c6336409'), 'IPv4')).toMatchObject({
    ...{ isInTimeWait: false, isReserved: false, isAnswered: false },
  });
  expect(snatText(bytes('01000000 02000000 409c 0004 c6336409'), 'IPv4').isAnswered).toBe(true);
  expect(snatText(bytes('01000000 02000000 409c 0000 c6336409'), 'IPv4')).toEqual({
    ...{ seenSeconds: 2, client: { address: '198.51.100.9', port: 40_000 } },
    ...{ isInTimeWait: false, isReserved: false, isAnswered: false },
  });
});

test('each flag is a bit of its own', () => {
  const flow = (flags: string): Uint8Array => bytes(`${'00'.repeat(47)}${flags}${'00'.repeat(8)}`);
  const flowFlags = (flags: string) => {
    const { isMasqueraded, hasFin, hasReset } = flowText(flow(flags), 'IPv4');
    return [isMasqueraded, hasFin, hasReset].map(Number).join('');
  };
  expect(['01', '02', '04'].map(flowFlags)).toEqual(['100', '010', '001']);
  const nat = (flags: string): Uint8Array => bytes(`${'00'.repeat(30)}${flags}${'00'.repeat(17)}`);
  const natFlags = (flags: string) => {
    const leg = natText(nat(flags), 'IPv4');
    const { isClientSource, isMasqueraded, hasReplied, hasFin, hasReset } = leg;
    return [isClientSource, isMasqueraded, hasReplied, hasFin, hasReset].map(Number).join('');
  };
  expect(['01', '02', '04', '08', '10'].map(natFlags)).toEqual([
    ...['10000', '01000', '00100', '00010', '00001'],
  ]);
});
