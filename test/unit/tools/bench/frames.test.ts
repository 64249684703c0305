// SPDX-License-Identifier: Apache-2.0
// bench:packets by frames: what is aimed at, what a sample means, and the tables.
import { describe, expect, test } from 'vitest';
import { endpointAt, firstObjects, manyObjects } from '../../../../bench/packets/frames/objects.ts';
import { costs } from '../../../../bench/packets/frames/programs.ts';
import { aimOf, ROWS, taskLine } from '../../../../bench/packets/frames/rows.ts';
import { sampleOf } from '../../../../bench/packets/frames/samples.ts';
import { columnsOf, type PacketReport } from '../../../../bench/packets/report/figures.ts';
import type {
  FrameRow,
  FrameSample,
  FrameSizeFigures,
} from '../../../../bench/packets/report/frames/figures.ts';
import { frameTables } from '../../../../bench/packets/report/frames/frame-cells.ts';
import { nodeAlone } from '../../../../bench/packets/report/frames/node-alone.ts';
import { framesMarkdown } from '../../../../bench/packets/report/markdown.ts';

const frames = (nsEach: number, lost = 0): FrameSample => ({
  ...{ frames: 1_000, units: 1_000 - lost, lost, resent: 0, cpuNs: nsEach * 1_000 },
});

describe('what frames are aimed at', () => {
  const udp = { protocol: 'UDP', backend: 'remote' } as const;

  test.each([
    ['one Service', aimOf(udp, 1, false), { targets: 1, port: 30_090, addressStep: 0 }],
    ['all of UDP', aimOf(udp, 10_000, false), { targets: 5_000, port: 20_001, portStep: 2 }],
    ['its backends', aimOf(udp, 1, true), { targets: 10, address: endpointAt(0), addressStep: 1 }],
    ['all backends', aimOf(udp, 10_000, true), { targets: 16_000, port: 9_000, portStep: 0 }],
  ])('%s', (_, aim, expected) => expect(aim).toMatchObject(expected));

  test('each Service of the protocol has a flow', () => {
    for (const { flows, targets } of [aimOf(udp, 1, false), aimOf(udp, 10_000, false)]) {
      expect(flows).toBeGreaterThanOrEqual(targets);
    }
  });

  test('the ports are those of the Services', () => {
    const ports = manyObjects(7).flatMap((change) => {
      if (change.type !== 'put' || change.ref.kind !== 'Service') return [];
      const { spec } = change.object as {
        spec: { ports: { nodePort: number; protocol: string }[] };
      };
      return spec.ports
        .filter(({ protocol }) => protocol === 'UDP')
        .map(({ nodePort }) => nodePort);
    });
    const { targets, port, portStep } = aimOf(udp, 7, false);
    expect(Array.from({ length: targets }, (_, at) => port + at * portStep)).toEqual(ports);
  });

  test('as feed.c reads it', () =>
    expect(taskLine({ protocol: 'TCP', order: 'new', manner: 'sink' }, aimOf(udp, 1, false))).toBe(
      'task 6 2 0 1024 1 3325256705 0 30090 0',
    ));

  test('Services before others are two, with a node', () =>
    expect(
      firstObjects()
        .map(({ ref }) => ref.kind)
        .sort(),
    ).toEqual(['EndpointSlice', 'EndpointSlice', 'Node', 'Service', 'Service']));
});

describe('a sample', () => {
  const fed = { frames: 100, cpuNs: 5, atServer: 0, atClient: 0, atNode: 0 };
  const row = (name: string) => ROWS.find((each) => each.name === name)!;

  test.each([
    ['one way', 'UDP, 64 bytes', { atServer: 98 }, { units: 98, lost: 2 }],
    ['dropped by the node', 'UDP, 64 bytes', { atNode: 100 }, { units: 100, lost: 0 }],
    [
      'both ways',
      'UDP, 64 bytes, answered',
      { atServer: 100, atClient: 99 },
      { units: 199, lost: 1 },
    ],
    ['connections', 'TCP connections', { atServer: 299, atClient: 200 }, { units: 99, lost: 1 }],
  ])('%s', (_, name, counted, expected) =>
    expect(sampleOf(row(name), { ...fed, ...counted })).toMatchObject(expected),
  );
});

test('programs cost what ran between two readings', () => {
  const at = (runs: number, ns: number) =>
    new Map([
      ['fl_xdp', { runs, ns }],
      ['idle', { runs: 3, ns: 9 }],
    ]);
  expect(costs(at(10, 1_000), at(110, 21_000), 200)).toEqual({
    fl_xdp: { nsPerRun: 200, runsPerPacket: 0.5 },
  });
});

test('the node alone is what is left of each round without the feeder', () =>
  expect(nodeAlone([frames(100), frames(200)], [frames(300), frames(700)])).toEqual([200, 500]));

test('each part of a run has the columns that it can measure', () => {
  expect(columnsOf('sockets', ['feeder', 'xdp', 'plain', 'empty'])).toEqual(['plain', 'empty']);
  expect(columnsOf('frames', ['feeder', 'xdp', 'plain', 'empty'])).toEqual([
    'feeder',
    'xdp',
    'plain',
  ]);
});

const row: FrameRow = {
  ...{ name: 'UDP, 64 bytes', unit: 'packets', packets: 1 },
  samples: {
    feeder: [frames(100)],
    router: [frames(300)],
    xdp: [frames(500)],
    plain: [frames(1_000)],
    iptables: [frames(2_100, 10)],
  },
  programs: {
    router: { router: { nsPerRun: 150, runsPerPacket: 1 } },
    xdp: {
      fl_xdp: { nsPerRun: 400, runsPerPacket: 1 },
      fl_ingress: { nsPerRun: 250, runsPerPacket: 0.0625 },
    },
  },
};
const latency = {
  ...{ p50Ns: 12_400, p99Ns: 40_000, p999Ns: 90_000, units: 10, lost: 0, load: 100, loadLost: 1 },
};
const size: FrameSizeFigures = {
  ...{ services: 1, rows: [row], loadAfter: 1 },
  latencies: [{ name: 'nothing else', samples: { plain: [latency] } }],
};

test('the tables: rates with ratios, the node alone, goals, programs, latency', () => {
  expect(frameTables(size)).toEqual([
    [
      [
        ...['frames, 1,000/s, 1 Service', 'nothing but frames', 'XDP router', 'fairlead XDP'],
        ...['plain routing', 'kube-proxy iptables'],
      ],
      [
        ...['UDP, 64 bytes', '10000', '3333: 3.33 (3.33–3.33)', '2000: 2.00 (2.00–2.00)'],
        ...['1000', '471: 0.47 (0.47–0.47), 1.0 % lost'],
      ],
    ],
    [
      [
        ...['ns a packet, the node alone, 1 Service', 'XDP router', 'fairlead XDP'],
        ...['plain routing', 'kube-proxy iptables'],
      ],
      ['UDP, 64 bytes', '200', '400', '900', '2000'],
    ],
    [
      ['fairlead XDP, 1 Service', 'whole way', 'node alone', 'goal'],
      [
        ...['UDP, 64 bytes, in parts of XDP router', '0.60 (0.60–0.60), missed'],
        ...['0.50 (0.50–0.50), missed', '0.7'],
      ],
      [
        ...['UDP, 64 bytes, in parts of plain routing', '2.00 (2.00–2.00), met'],
        ...['2.25 (2.25–2.25), met', '0.95'],
      ],
      [
        ...['UDP, 64 bytes, in parts of kube-proxy iptables', '4.24 (4.24–4.24), missed'],
        ...['5.00 (5.00–5.00), met', '5'],
      ],
    ],
    [
      ['ns per run, 1 Service', 'XDP router', 'fairlead XDP'],
      ['UDP, 64 bytes', 'router 150', 'fl_xdp 400, fl_ingress 250 × 0.06'],
    ],
    [
      ["a request of no Service's, p50 / p99 / p99.9 µs, 1 Service", 'plain routing'],
      ['nothing else', '12 / 40 / 90, 1.0 % lost'],
    ],
  ]);
});

test('Markdown has them in a part of their own', () => {
  const report: PacketReport = {
    ...{ date: '2026-01-31', commit: 'abc1234', hasUncommittedChanges: false, rounds: 15 },
    machine: { cpu: 'Some CPU', cores: 2, kernel: '6.18.0', node: 'v20.20.0', loadBefore: 0.25 },
    ...{ skipped: {}, sizes: [], frames: [size] },
  };
  const text = framesMarkdown(report);
  expect(text).toContain('after each size 0.3, 1.0.\n\n| frames, 1,000/s, 1 Service | nothing');
});
