// SPDX-License-Identifier: Apache-2.0
// Every algorithm on every path: what new connections get of the programs of sockets, of tc and of XDP, and of tc for what XDP leaves,
// all or a part. By chi-square, or exactly where an algorithm takes turns or compares. Packets go through the whole programs, from a SYN to the backend that it is sent to;
// sockets through the selection that connect4 calls, and test/integration/netns has real ones.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { setContent } from '../../../../src/engines/bpf/rows/service-port/set-content.ts';
import type { Algorithm } from '../../../../src/model/types.ts';
import { buildFrame } from '../../../support/packets/build.ts';
import { checksum } from '../../../support/packets/checksum.ts';
import { servicePort } from '../../../unit/engines/bpf/plans.ts';
import { sharedDrive } from '../packet/support/shared-drive.ts';
import { enterUplinks, ip, POD } from '../packet/support/uplinks.ts';
import { XDP, XdpDrive } from '../packet/support/xdp-drive.ts';
import { Drive, decodeChoice, encodeRequest } from '../support/drive.ts';
import { onOneCpu } from '../support/one-cpu.ts';

const VIP = '203.0.113.10';
const WEIGHTS = [4, 1, 2, 1, 2];
const CONNECTIONS = 3_000;

enterUplinks('one way');
ip('route add 198.51.0.0/16 via 192.0.2.1');
// Turns are counted by each CPU for itself.
onOneCpu();
// Room for all that begin at once: one that is evicted no longer counts.
const tc = sharedDrive({}, { buckets: 16_384 });
const xdp = new XdpDrive(tc.object);
const sockets = new Drive();
const select = sockets.object.program('fl_drive_select');
const opened = new BigUint64Array(sockets.object.map('fl_be_stat').mmap());
const flows = new BigUint64Array(tc.object.map('fl_be_flows').mmap());
beforeEach(() => {
  xdp.putDevices();
  opened.fill(0n);
});
afterAll(() => {
  xdp.close();
  sockets.close();
});

/** As the agent writes it. */
function publish(on: Drive, algorithm: Algorithm): void {
  const ids = WEIGHTS.map((_, index) => index + 1);
  const backends = WEIGHTS.map((weight, index) => ({
    ...{ address: `10.1.1.${1 + index}`, port: 8080, isLocal: false, isTerminating: false, weight },
  }));
  const { kind, table, lookup } = setContent(
    servicePort('web', [], backends, { algorithm }),
    { algorithm, backends },
    { ascending: ids, asked: ids },
  );
  for (const [index, { address, port }] of backends.entries())
    on.putBackend({ id: index + 1, address, port });
  const set = on.putSetOfKind(kind, 16, ids, lookup ? Array.from(lookup.ids()) : table);
  on.putFrontend({ address: VIP, port: 80, rules: { host: { set } } });
}

/** Clients of many networks, each with a port of its own. */
const clientOf = (n: number) => ({
  source: `198.51.${n >> 8}.${n & 255}`,
  sourcePort: 1024 + ((n * 7919) % 64_000),
});

/** Behind the Ethernet header. */
const HEADER_SUM_AT = 14 + 10;
const SYN = buildFrame(`198.51.100.1:40000 > ${VIP}:80 tcp SYN`);
/** Whose TCP checksum nobody looks at. XDP leaves an IPv4 header with a wrong one to the stack. */
function synOf(n: number): Uint8Array {
  const frame = SYN.slice();
  const view = new DataView(frame.buffer);
  view.setUint16(28, n);
  view.setUint16(34, clientOf(n).sourcePort);
  view.setUint16(HEADER_SUM_AT, 0);
  view.setUint16(HEADER_SUM_AT, checksum(frame.subarray(14, 34)));
  return frame;
}

function forgetAll(): void {
  opened.fill(0n);
  flows.fill(0n);
}

/** The last byte of the destination, which is the id. */
function backendIn(frame: Uint8Array): number {
  expect(Array.from(frame.subarray(30, 33))).toEqual([10, 1, 1]);
  return frame[33] ?? 0;
}

/** Of the last two: XDP leaves all, or what is for the backends of these numbers, which are on this node. */
const PATHS = ['sockets', 'tc', 'XDP', 'tc after XDP', 'XDP and tc'] as const;
type Path = (typeof PATHS)[number];
const HERE = [1, 3];

/** As the kernel does: tc has what XDP leaves. */
function afterXdp(frame: Uint8Array): { readonly frame: Uint8Array; readonly isSent: boolean } {
  const { action, frame: sent } = xdp.run(frame);
  if (action === XDP.redirect) return { frame: sent, isSent: true };
  expect(action).toBe(XDP.pass);
  return { frame: tc.run('fl_ingress', frame).frame, isSent: false };
}

const CHOOSE: Readonly<Record<Path, (n: number) => number>> = {
  sockets: (n) => {
    const { source, sourcePort } = clientOf(n);
    const socket = { source: '100::7', bound: source, sourcePort, position: 'pod' } as const;
    const dataIn = encodeRequest({ to: VIP, port: 80, ...socket });
    const { id } = decodeChoice(select.testRun({ dataIn, dataOutSize: dataIn.length }).dataOut);
    // As the hooks do after the choice.
    opened[2 * id] = (opened[2 * id] ?? 0n) + 1n;
    return id;
  },
  tc: (n) => backendIn(tc.run('fl_ingress', synOf(n)).frame),
  XDP: (n) => {
    const { action, frame } = xdp.run(synOf(n));
    expect([XDP.tx, XDP.redirect]).toContain(action);
    return backendIn(frame);
  },
  'tc after XDP': (n) => {
    const { frame, isSent } = afterXdp(synOf(n));
    expect(isSent).toBe(false);
    return backendIn(frame);
  },
  'XDP and tc': (n) => {
    const { frame, isSent } = afterXdp(synOf(n));
    const id = backendIn(frame);
    if (isSent) expect(HERE).not.toContain(id);
    return id;
  },
};

/** Connections of each backend. */
function countsOf(path: Path, algorithm: Algorithm, after = () => {}): readonly number[] {
  publish(path === 'sockets' ? sockets : tc, algorithm);
  const counts = WEIGHTS.map(() => 0);
  for (let n = 1; n <= CONNECTIONS; n++) {
    const at = CHOOSE[path](n) - 1;
    counts[at] = (counts[at] ?? 0) + 1;
    after();
  }
  return counts;
}

const EVEN = WEIGHTS.map(() => 1);

const shares = (weights: readonly number[]): readonly number[] => {
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => (CONNECTIONS * weight) / sum);
};

/** Four degrees of freedom: beyond 45 in one of 10^8 runs. Shares of other weights are beyond 500. */
const isSpread = (weights: readonly number[]) => (counts: readonly number[]) => {
  const expected = shares(weights);
  const chiSquare = counts.reduce(
    (total, count, index) => total + (count - expected[index]!) ** 2 / expected[index]!,
    0,
  );
  expect(chiSquare, counts.join()).toBeLessThan(45);
};

/** On one CPU each round is whole, but the last one. */
const isInTurns = (weights: readonly number[]) => (counts: readonly number[]) => {
  for (const [index, share] of shares(weights).entries())
    expect(Math.abs(counts[index]! - share), counts.join()).toBeLessThanOrEqual(weights[index]!);
};

/** Nobody has more than one connection above the share of who has the fewest, by weight. */
const isLevel = (weights: readonly number[]) => (counts: readonly number[]) => {
  for (const [index, count] of counts.entries()) {
    for (const [other, fewer] of counts.entries())
      expect((count - 1) / weights[index]!, counts.join()).toBeLessThanOrEqual(
        fewer / weights[other]!,
      );
  }
};

describe.each(PATHS)('%s', (path) => {
  if (path === 'tc after XDP') beforeEach(() => xdp.putDevices({ areTargets: false }));
  if (path === 'XDP and tc') {
    beforeAll(() => HERE.forEach((n) => void ip(`route add 10.1.1.${n} dev ${POD.name}`)));
    afterAll(() => HERE.forEach((n) => void ip(`route del 10.1.1.${n}`)));
  }

  test.each([
    ['random', isSpread(EVEN)],
    ['weighted-random', isSpread(WEIGHTS)],
    ['round-robin', isInTurns(EVEN)],
    ['weighted-round-robin', isInTurns(WEIGHTS)],
    ['least-connections', isLevel(EVEN)],
    ['weighted-least-connections', isLevel(WEIGHTS)],
    ['source-hash', isSpread(WEIGHTS)],
    ['maglev', isSpread(WEIGHTS)],
  ] as const)('%s', (algorithm, check) => {
    check(countsOf(path, algorithm));
  });

  test('least-connections, of backends that are all idle', () => {
    isSpread(EVEN)(countsOf(path, 'least-connections', forgetAll));
  });
});

test.each(['source-hash', 'maglev'] as const)(
  '%s: a client gets the same on every path',
  (algorithm) => {
    publish(sockets, algorithm);
    publish(tc, algorithm);
    for (let n = 1; n <= 200; n++) {
      expect(CHOOSE.tc(n)).toBe(CHOOSE.sockets(n));
    }
    // XDP would go on with what tc has begun.
    tc.forgetConns('IPv4');
    for (let n = 1; n <= 200; n++) {
      expect(CHOOSE.XDP(n)).toBe(CHOOSE.sockets(n));
    }
  },
);
