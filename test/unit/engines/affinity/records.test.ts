// SPDX-License-Identifier: Apache-2.0
// The records of fl_affinity and what session affinity remembers: each becomes the other.
import { describe, expect, test } from 'vitest';
import {
  type AffinityRecord,
  isNewer,
  programmedOf,
  recordsOf,
  rememberedBy,
} from '../../../../src/engines/bpf/affinity/records.ts';
import type { Remembered } from '../../../../src/engines/predecessor.ts';
import type { BackendView, FrontendView, PortId } from '../../../../src/engines/snapshot.ts';

const NOW = 1_000_000_000_000n;
const COOKIE = 0x1234n;
const SERVICE = 7;

const port = (name: string, family: 'IPv4' | 'IPv6' = 'IPv4'): PortId => ({
  ...{ namespace: 'default', name, portName: 'http', protocol: 'TCP', family },
});
const frontend = (of: PortId, affinitySeconds: number): FrontendView => ({
  ...{ dataplane: 'bpf', port: of, affinitySeconds, internal: [], external: [] },
  ...{ internalEmpty: 'reject', externalEmpty: 'reject' },
  id: { family: of.family, address: undefined, port: 80, protocol: 'TCP' },
});
const backend = (of: PortId, text: string, id: number, more = {}): BackendView => ({
  ...{ dataplane: 'bpf', port: of, backend: text, id, generation: 3, state: 'active', ...more },
});
const WEB = port('web');
const WEB6 = port('web', 'IPv6');
const OTHER = port('other');

const PROGRAMMED = programmedOf(
  {
    frontends: [frontend(WEB, 600), frontend(WEB6, 600), frontend(OTHER, 0)],
    backends: [
      backend(WEB, '10.1.1.5:8080', 11),
      backend(WEB, '10.1.1.6:8080', 12),
      backend(WEB, '10.1.1.7:8080', 13, { state: 'gone' }),
      backend(WEB6, '[fd00::5]:8080', 11),
      backend(OTHER, '10.1.1.5:8080', 14),
    ],
  },
  () => SERVICE,
  [
    { cookie: COOKIE, addresses: ['192.0.2.1', '10.1.1.1'] },
    { cookie: 0x5678n, addresses: ['fd00::9', '10.1.1.9'] },
  ],
);

const remembered = (client: string, backend = '10.1.1.5:8080', ageSeconds = 10): Remembered => ({
  port: client.includes(':') ? WEB6 : WEB,
  ...{ backend, client, ageSeconds },
});

test('the service ports that have it, with the backends that can be kept', () => {
  expect(PROGRAMMED.ports).toEqual([
    { port: WEB, seconds: 600, backends: ['10.1.1.5:8080', '10.1.1.6:8080'] },
    { port: WEB6, seconds: 600, backends: ['[fd00::5]:8080'] },
  ]);
});

describe('a record of a client', () => {
  test('is what the programs read: address, service, family; backend, generation, time', () => {
    const [record] = recordsOf(PROGRAMMED, [remembered('203.0.113.9')], NOW);
    expect([...record!.key]).toEqual([
      ...[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 203, 0, 113, 9],
      ...[SERVICE, 0, 0, 0, 4, 0, 0, 0],
    ]);
    const value = new DataView(record!.value.buffer);
    expect([value.getUint32(0, true), value.getUint16(4, true)]).toEqual([11, 3]);
    expect(value.getBigUint64(8, true)).toBe(NOW - 10_000_000_000n);
  });

  test.each([remembered('203.0.113.9'), remembered('2001:db8::9', '[fd00::5]:8080', 0)])(
    '$client comes back as it was',
    (one) => {
      expect(rememberedBy(PROGRAMMED, recordsOf(PROGRAMMED, [one], NOW), NOW)).toEqual([one]);
    },
  );

  test('of the node is there for its packets and for its sockets', () => {
    const records = recordsOf(PROGRAMMED, [remembered('10.1.1.1')], NOW);
    expect(records).toHaveLength(2);
    expect([...records[1]!.key.slice(0, 16)]).toEqual([
      ...[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34],
    ]);
    const sockets = rememberedBy(PROGRAMMED, [records[1]!], NOW);
    expect(sockets.map(({ client }) => client)).toEqual(['192.0.2.1']);
  });

  test.each([
    ['10.1.1.9', '10.1.1.5:8080'],
    ['fd00::9', '[fd00::5]:8080'],
  ])('of a pod, %s, is there for its sockets', (client, backend) => {
    const [, sockets] = recordsOf(PROGRAMMED, [remembered(client, backend)], NOW);
    expect([...sockets!.key.slice(0, 16)]).toEqual([
      ...[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x56, 0x78],
    ]);
    expect(rememberedBy(PROGRAMMED, [sockets!], NOW)).toEqual([remembered(client, backend)]);
  });

  test('of two times the later one counts', () => {
    const all = [remembered('203.0.113.9', '10.1.1.6:8080', 1), remembered('203.0.113.9')];
    for (const some of [all, all.toReversed()]) {
      const back = rememberedBy(PROGRAMMED, recordsOf(PROGRAMMED, some, NOW), NOW);
      expect(back).toEqual([remembered('203.0.113.9', '10.1.1.6:8080', 1)]);
    }
  });

  test('replaces one of an earlier time', () => {
    const at = (ageSeconds: number): AffinityRecord =>
      recordsOf(PROGRAMMED, [remembered('203.0.113.9', '10.1.1.5:8080', ageSeconds)], NOW)[0]!;
    expect(isNewer(at(1), undefined)).toBe(true);
    expect(isNewer(at(1), at(2).value)).toBe(true);
    expect(isNewer(at(2), at(1).value)).toBe(false);
  });

  test('before the boot was at the boot', () => {
    const [record] = recordsOf(PROGRAMMED, [remembered('203.0.113.9')], 5n);
    expect(new DataView(record!.value.buffer).getBigUint64(8, true)).toBe(0n);
  });
});

describe('nobody is remembered', () => {
  const changed = (change: (record: AffinityRecord) => void) => {
    const [record] = recordsOf(PROGRAMMED, [remembered('203.0.113.9')], NOW);
    change(record!);
    return rememberedBy(PROGRAMMED, [record!], NOW);
  };
  test.each<[string, (record: AffinityRecord) => void]>([
    ['by a backend that is gone', ({ value }) => value.set([13])],
    ['by an id that is another backend now', ({ value }) => value.set([4], 4)],
    ['by another Service', ({ key }) => key.set([8], 16)],
    [
      'by sockets of a pod that is gone',
      ({ key }) => key.set([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]),
    ],
    ['after the time', ({ value }) => new DataView(value.buffer).setBigUint64(8, 1n, true)],
  ])('%s', (_, change) => {
    expect(changed(change)).toEqual([]);
  });

  test('at a backend that is not programmed, or without session affinity', () => {
    const all = [
      remembered('203.0.113.9', '10.9.9.9:80'),
      remembered('203.0.113.9', '10.1.1.7:8080'),
      { ...remembered('203.0.113.9'), port: OTHER },
    ];
    expect(recordsOf(PROGRAMMED, all, NOW)).toEqual([]);
  });
});
