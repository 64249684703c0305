// SPDX-License-Identifier: Apache-2.0
// Maglev: the programs choose as the model in TypeScript says, of IPv4 and IPv6, packets and sockets, whatever ids the
// backends have on this node; and flows spread as the weights say.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { entryOf, flowHash } from '../../../../src/plan/maglev/hash.ts';
import { maglevTable } from '../../../../src/plan/maglev/maglev-table.ts';
import type { BpfProgram } from '../../../../src/sys/native.ts';
import { Drive, decodeChoice, encodeRequest, familyOf, type Request } from '../support/drive.ts';

const VIP = '203.0.113.10';
const VIP6 = '2001:db8:ffff::10';
const AFFINE = 8080;
const HOSTS = [1, 2, 3, 4];
const ENTRIES = 1009;
const WEIGHTS = [1, 1, 1, 1];

const addressOf = (host: number, family: 'IPv4' | 'IPv6') =>
  family === 'IPv4' ? `10.1.1.${host}` : `fd00:1::${host}`;

const tableOf = (weights: readonly number[]): Uint16Array =>
  maglevTable({
    names: weights.map((_, index) => `TCP/${addressOf(1 + index, 'IPv4')}/8080`),
    weights,
    entries: ENTRIES,
  });

/** As the agent of one node writes it, with the ids of that node. */
function started(ids: readonly number[], weights: readonly number[] = WEIGHTS): Drive {
  const drive = new Drive();
  const ascending = ids.toSorted((a, b) => a - b);
  for (const [index, id] of ids.entries()) {
    drive.putBackend({ id, address: addressOf(HOSTS[index] ?? 0, 'IPv4'), port: 8080 });
    drive.putBackend({ id, address: addressOf(HOSTS[index] ?? 0, 'IPv6'), port: 8080 });
  }
  const table = Array.from(tableOf(weights), (index) => ids[index] ?? 0);
  const set = drive.putSetOfKind('maglev', 16, ascending, table);
  for (const address of [VIP, VIP6]) {
    drive.putFrontend({ address, port: 80, rules: { host: { set } } });
    drive.putFrontend({ address, port: AFFINE, affinitySeconds: 600, rules: { host: { set } } });
  }
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

const programs = new Map<Drive, BpfProgram>();

interface Flow {
  readonly source: string;
  readonly sourcePort: number;
}

const toOf = ({ source }: Flow): string => (familyOf(source) === 'IPv6' ? VIP6 : VIP);

function chosen(on: Drive, flow: Flow, how: Partial<Request> = {}): string {
  const program = programs.get(on) ?? on.object.program('fl_drive_select');
  programs.set(on, program);
  const request = { to: toOf(flow), port: 80, ...flow, isPacket: true, ...how };
  const dataIn = encodeRequest(request);
  return decodeChoice(program.testRun({ dataIn, dataOutSize: dataIn.length }).dataOut).backend;
}

/** What the plan's model says. */
function expected(flow: Flow, port = 80, sourcePort = flow.sourcePort): string {
  const id = { ...flow, sourcePort, destination: toOf(flow), destinationPort: port };
  const entry = entryOf(flowHash({ ...id, protocol: 'TCP' }), ENTRIES);
  const family = familyOf(flow.source);
  const address = addressOf(HOSTS[tableOf(WEIGHTS)[entry] ?? 0] ?? 0, family);
  return family === 'IPv6' ? `[${address}]:8080` : `${address}:8080`;
}

const flows = (count: number): readonly Flow[] =>
  Array.from({ length: count }, (_, i) => ({
    source: i % 2 === 0 ? `198.51.${i >> 8}.${i & 255}` : `2001:db8:${i.toString(16)}::1`,
    sourcePort: 1024 + ((i * 7919) % 64_000),
  }));

describe('a flow', () => {
  test('gets what the model says, of 2,000 flows', () => {
    for (const flow of flows(2_000)) expect(chosen(drive, flow)).toBe(expected(flow));
  });

  test('gets the same from another node, whose ids are others', () => {
    for (const flow of flows(500)) expect(chosen(other, flow)).toBe(chosen(drive, flow));
  });

  test('gets the same as a socket that is bound to its address and port', () => {
    for (const flow of flows(200)) {
      const socket = { source: '100::7', isPacket: false, position: 'pod', bound: flow.source };
      expect(chosen(drive, flow, { ...socket, position: 'pod' })).toBe(expected(flow));
    }
  });

  test('of another port of the client, or to another port, is another flow', () => {
    const found = new Set(
      Array.from({ length: 40 }, (_, i) =>
        chosen(drive, { source: '198.51.100.7', sourcePort: 40_000 + i }),
      ),
    );
    expect(found.size).toBe(HOSTS.length);
  });

  test('with session affinity is that of the client, whatever its port', () => {
    for (const flow of flows(100)) {
      drive.forgetAffinity();
      expect(chosen(drive, flow, { port: AFFINE })).toBe(expected(flow, AFFINE, 0));
    }
  });
});

test('a socket without a port gets any entry', () => {
  const socket = { isPacket: false, position: 'pod', bound: '0.0.0.0', source: '100::7' } as const;
  const found = new Set(
    Array.from({ length: 60 }, () =>
      chosen(drive, { source: '198.51.100.7', sourcePort: 0 }, { ...socket, to: VIP }),
    ),
  );
  expect(found.size).toBe(HOSTS.length);
});

test.each([
  ['equal', WEIGHTS],
  ['3:1:1:5', [3, 1, 1, 5]],
])('flows spread by weights: %s', (_, weights) => {
  const spread = started([1, 2, 3, 4], weights);
  try {
    const count = 10_000;
    const shares = weights.map(
      (_, index) => tableOf(weights).filter((one) => one === index).length / ENTRIES,
    );
    for (const flowOf of [
      (i: number) => ({ source: '198.51.100.7', sourcePort: 1024 + i }),
      (i: number) => ({ source: `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, sourcePort: 40_000 }),
      (i: number) => ({ source: `2001:db8:${i.toString(16)}::1`, sourcePort: 1024 + (i % 9) }),
    ]) {
      const picked = new Map<string, number>();
      for (let i = 1; i <= count; i++) {
        const backend = chosen(spread, flowOf(i));
        picked.set(backend, (picked.get(backend) ?? 0) + 1);
      }
      const counts = [...picked].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, n]) => n);
      const chiSquare = counts.reduce((total, n, index) => {
        const share = count * (shares[index] ?? 0);
        return total + (n - share) ** 2 / share;
      }, 0);
      // The flows are fixed: no chance, no false alarm. Three degrees of freedom, six standard deviations.
      expect(chiSquare).toBeLessThan(3 + 6 * Math.sqrt(6));
    }
  } finally {
    spread.close();
  }
});
