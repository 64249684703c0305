// SPDX-License-Identifier: Apache-2.0
// Source hash: the address alone decides, of sockets as of packets, whatever ids the backends have on this node; and
// addresses spread as the weights say.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { encodeU32 } from '../../../../src/engines/bpf/layout/layout.ts';
import { tableOrder } from '../../../../src/engines/bpf/rows/service-port/set-content.ts';
import { addressBytes } from '../../../../src/lib/address-bytes.ts';
import type { BpfProgram } from '../../../../src/sys/native.ts';
import { Drive, decodeChoice, encodeRequest, familyOf, type Request } from '../support/drive.ts';

const VIP = '10.96.0.10';
const VIP6 = 'fd00:96::10';
const BACKENDS = ['10.1.1.1', '10.1.1.2', '10.1.1.3', '10.1.1.4'];
const BACKENDS6 = ['fd00:1::1', 'fd00:1::2', 'fd00:1::3', 'fd00:1::4'];
const NODE = '192.0.2.11';
const NODE6 = '2001:db8::11';

/** As the agent of one node writes it: the table in the order of addresses, with the ids of that node. */
function started(ids: readonly number[], weights: readonly number[] = [1, 1, 1, 1]): Drive {
  const drive = new Drive();
  const table = tableOrder(weights).map((index) => ids[index] ?? 0);
  const ascending = ids.toSorted((a, b) => a - b);
  for (const [index, id] of ids.entries()) {
    drive.putBackend({ id, address: BACKENDS[index] ?? '', port: 8080 });
    drive.putBackend({ id, address: BACKENDS6[index] ?? '', port: 8080 });
  }
  const set = drive.putSetOfKind('source-hash', ids[0] ?? 1, ascending, table);
  for (const address of [VIP, VIP6]) {
    drive.putFrontend({ address, port: 80, rules: { host: { set } } });
  }
  const node = new Uint8Array(20);
  node.set(addressBytes(NODE, 'IPv4'), 0);
  node.set(addressBytes(NODE6, 'IPv6'), 4);
  drive.object.map('fl_node').put(encodeU32(0), node);
  return drive;
}

let drive: Drive;
let other: Drive;
beforeAll(() => {
  drive = started([1, 2, 3, 4]);
  other = started([40, 7, 300, 21]);
});
afterAll(() => {
  drive?.close();
  other?.close();
});

const toOf = (source: string): string => (familyOf(source) === 'IPv6' ? VIP6 : VIP);

/** One handle for each Drive: every other way a run would take a descriptor. */
const programs = new Map<Drive, BpfProgram>();

function chosen(on: Drive, source: string, how: Partial<Request> = {}): string {
  const program = programs.get(on) ?? on.object.program('fl_drive_select');
  programs.set(on, program);
  const request = { to: toOf(source), port: 80, source, isPacket: true, ...how };
  const dataIn = encodeRequest(request);
  return decodeChoice(program.testRun({ dataIn, dataOutSize: dataIn.length }).dataOut).backend;
}

const sources = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) =>
    i % 2 === 0 ? `198.51.${i >> 8}.${i & 255}` : `2001:db8:${i.toString(16)}::1`,
  );

describe('one source', () => {
  test('always gets the same backend', () => {
    for (const source of sources(50)) {
      const first = chosen(drive, source);
      for (let again = 0; again < 5; again++) expect(chosen(drive, source)).toBe(first);
    }
  });

  test('gets the same from another node, and from this one after everything is programmed anew', () => {
    for (const source of sources(200)) expect(chosen(other, source)).toBe(chosen(drive, source));
  });

  test('gets the same as a packet and as a socket that is bound to the address', () => {
    for (const source of sources(200)) {
      const cookie = { source: '100::7', isPacket: false, position: 'pod', bound: source } as const;
      expect(chosen(drive, source, { ...cookie, to: toOf(source) })).toBe(chosen(drive, source));
    }
  });

  test('gets the same as a packet and as a socket of the node that is bound to no address', () => {
    for (const [address, unbound] of [
      [NODE, '0.0.0.0'],
      [NODE6, '::'],
    ] as const) {
      const socket = { isPacket: false, position: 'host', bound: unbound } as const;
      expect(chosen(drive, address, { ...socket, source: '100::1' })).toBe(chosen(drive, address));
    }
  });

  test('is the network namespace of a pod whose sockets are bound to no address', () => {
    const socket = { isPacket: false, position: 'pod', bound: '0.0.0.0', to: VIP } as const;
    const found = new Set<string>();
    for (let cookie = 1; cookie <= 40; cookie++) {
      const backend = chosen(drive, `100::${cookie.toString(16)}`, socket);
      expect(chosen(drive, `100::${cookie.toString(16)}`, socket)).toBe(backend);
      found.add(backend);
    }
    expect(found.size).toBe(BACKENDS.length);
  });
});

test.each([
  ['equal', [1, 1, 1, 1]],
  ['3:1:1:0, the last one drained', [3, 1, 1]],
  ['a table of two blocks', [9, 5, 3, 2]],
])('many sources spread by weights: %s', (_, weights) => {
  const spread = started([1, 2, 3, 4].slice(0, weights.length), weights);
  try {
    for (const addressOf of [
      (i: number) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`,
      (i: number) => `2001:db8::${i.toString(16)}`,
      (i: number) => `2001:db8:${i.toString(16)}::1`,
    ]) {
      const count = 5_000;
      const picked = new Map<string, number>();
      for (let i = 1; i <= count; i++) {
        const backend = chosen(spread, addressOf(i));
        picked.set(backend, (picked.get(backend) ?? 0) + 1);
      }
      const sum = weights.reduce((a, b) => a + b, 0);
      const counts = [...picked].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, n]) => n);
      expect(counts).toHaveLength(weights.length);
      const chiSquare = counts.reduce((total, n, index) => {
        const share = (count * (weights[index] ?? 0)) / sum;
        return total + (n - share) ** 2 / share;
      }, 0);
      // Consecutive addresses, as clients of one subnet have them. The sources are fixed: no chance, no false alarm.
      expect(chiSquare).toBeLessThan(weights.length - 1 + 6 * Math.sqrt(2 * weights.length));
    }
  } finally {
    spread.close();
  }
});

test('session affinity goes before the hash', () => {
  const set = drive.putSetOfKind('source-hash', 50, [1, 2, 3, 4], [1, 2, 3, 4]);
  const one = drive.putSetOfKind('source-hash', 60, [1, 2, 3, 4], [2, 2, 2, 2]);
  const serve = (rule: typeof set) =>
    drive.putFrontend({
      address: VIP,
      port: 81,
      affinitySeconds: 600,
      rules: { host: { set: rule } },
    });
  serve(set);
  const first = drive.select({ to: VIP, port: 81, source: '198.51.100.77', isPacket: true });
  serve(one);
  const again = drive.select({ to: VIP, port: 81, source: '198.51.100.77', isPacket: true });
  expect(again).toMatchObject({ id: first.id, byAffinity: true });
});
