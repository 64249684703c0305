// SPDX-License-Identifier: Apache-2.0
// The sweep: what has expired goes with all its legs, everything else stays.
import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { flowTables } from '../../../../src/dataplane/bpf/flows/kernel.ts';
import { createBatchSweep } from '../../../../src/dataplane/bpf/flows/sweep/batch-sweep.ts';
import { createSweep, type Sweep } from '../../../../src/dataplane/bpf/flows/sweep/sweep.ts';
import { readTraffic } from '../../../../src/dataplane/bpf/flows/traffic/ended.ts';
import { arrayTable } from '../../../../src/dataplane/bpf/maps/kernel.ts';
import { encodeU32 } from '../../../../src/dataplane/bpf/maps/layout.ts';
import { type BpfObject, openObject } from '../../../../src/sys/native.ts';
import { sweepObject } from '../support/drive.ts';
import { PacketDrive, SETTINGS } from './support/packet-drive.ts';
import { names, publish } from './support/stage.ts';

let drive: PacketDrive;
let object: BpfObject;
let sweep: Sweep;

beforeEach(() => {
  drive = new PacketDrive();
  object = openObject(readFileSync(sweepObject), { name: 'sweep' });
  for (const name of object.maps) {
    if (!drive.object.maps.includes(name) || name.includes('.')) continue;
    const map = drive.object.map(name);
    object.setMaxEntries(name, map.info.maxEntries);
    object.reuseMap(name, map);
  }
  object.load();
  sweep = sweepOf((map) => object.map(map).info.maxEntries);
});
afterEach(() => {
  object.close();
  drive.close();
});

const sweepOf = (capacity: (map: string) => number): Sweep =>
  createSweep({
    run: (contextIn) => object.program('fl_sweep').testRun({ contextIn }).retval,
    swept: () => object.map('fl_swept').get(encodeU32(0))!,
    capacity,
  });

/** The one of the agent, for kernels that do not load that of the kernel. */
const batchSweep = (): Sweep =>
  createBatchSweep({
    flows: flowTables((name) => drive.object.map(name)),
    traffic: arrayTable(drive.object.map('fl_traffic')),
    timeouts: SETTINGS.timeoutSeconds,
    nowSeconds: () => Number(process.hrtime.bigint() / 1_000_000_000n),
  });

const round = () => {
  while (!sweep.step());
  return sweep.total();
};

const CASES = (['kernel', 'agent'] as const).flatMap((by) =>
  (['IPv4', 'IPv6'] as const).map((family) => ({ by, family })),
);

describe.each(CASES)('by the $by, $family', ({ by, family }) => {
  beforeEach(() => {
    if (by === 'agent') sweep = batchSweep();
  });
  const { client, vip, node, pod } = names(family);
  const digit = family === 'IPv4' ? 4 : 6;
  const masquerade = { rule: { masquerade: true } };
  const send = (word: string, port = 40_000) => drive.through(`${client(port)} > ${vip()} ${word}`);
  const answer = (word: string, port = 40_000) =>
    drive.through(`${pod(5)} > ${node(port)} ${word}`);
  const entries = (tier: 'main' | 'new') =>
    [drive.flows(tier, family), drive.nats(tier, family), drive.snats(tier, family)].map(
      (of) => of.length,
    );
  const NONE = [0, 0, 0];

  /** What was seen last in a table was seen that much earlier. */
  function age(table: string, seconds: number): void {
    const at = table.endsWith('flow') ? 16 : 4;
    drive.edit(`fl_${table}${digit}`, (value) => {
      const view = new DataView(value.buffer, value.byteOffset);
      view.setUint32(at, view.getUint32(at, true) - seconds, true);
    });
  }
  const ageAll = (tier: 'main' | 'new', seconds: number): void => {
    for (const leg of ['flow', 'nat', 'snat']) age(tier === 'main' ? leg : `new_${leg}`, seconds);
  };
  function establish(): void {
    publish(drive, family, masquerade);
    send('tcp SYN');
    answer('tcp SYN ACK');
    send('tcp ACK');
  }

  test.each([
    ['TCP half-open', 'new', 20, 'TCP', () => send('tcp SYN')],
    ['UDP half-open', 'new', 30, 'UDP', () => send('udp payload=1')],
    ['TCP established', 'main', 21_600, 'TCP', establish],
    [
      'UDP established',
      'main',
      120,
      'UDP',
      () => {
        for (let n = 0; n < 3; n++) {
          send('udp payload=1');
          answer('udp payload=1');
        }
      },
    ],
    [
      'TCP half-closed',
      'main',
      3600,
      'TCP',
      () => {
        establish();
        answer('tcp FIN ACK');
      },
    ],
    [
      'TCP closed by both',
      'main',
      10,
      'TCP',
      () => {
        establish();
        answer('tcp FIN ACK');
        send('tcp FIN ACK');
      },
    ],
    [
      'TCP reset by the backend',
      'main',
      10,
      'TCP',
      () => {
        establish();
        answer('tcp RST');
      },
    ],
  ] as const)(
    '%s: the flow goes after its time, not before',
    (_, tier, seconds, protocol, make) => {
      publish(drive, family, { protocol, ...masquerade });
      make();
      expect(entries(tier)).toEqual([1, 1, 1]);
      ageAll(tier, seconds - 5);
      round();
      expect(entries(tier)).toEqual([1, 1, 1]);
      ageAll(tier, 6);
      expect(round()).toMatchObject({ expired: 1, orphans: 0 });
      expect(entries(tier)).toEqual(NONE);
    },
  );

  test('packets of the backend alone keep a flow', () => {
    establish();
    age('flow', 30_000);
    round();
    expect(entries('main')).toEqual([1, 1, 1]);
  });

  test('a packet of the next second, seen on another CPU, keeps it too', () => {
    publish(drive, family, masquerade);
    send('tcp SYN');
    ageAll('new', -1);
    round();
    expect(entries('new')).toEqual([1, 1, 1]);
    expect(send('tcp SYN')).toContain(pod(5));
  });

  test('packets and bytes of a flow that ends are its frontend’s', () => {
    establish();
    answer('tcp ACK payload=100');
    ageAll('main', 30_000);
    round();
    const header = family === 'IPv4' ? 40 : 60;
    expect(readTraffic(arrayTable(drive.object.map('fl_traffic')), 1)).toEqual({
      toBackend: { packets: 2, bytes: 2 * header },
      toClient: { packets: 2, bytes: 2 * header + 100 },
    });
  });

  test.each(['new', 'main'] as const)('legs whose flow leg is gone go (%s)', (tier) => {
    if (tier === 'main') establish();
    else {
      publish(drive, family, masquerade);
      send('tcp SYN');
    }
    drive.clear('flow', tier, family);
    round();
    expect(entries(tier)).toEqual([0, 1, 1]);
    ageAll(tier, 25);
    expect(round()).toMatchObject({ orphans: 1 });
    expect(entries(tier)).toEqual(NONE);
  });

  test.each(['new', 'main'] as const)('so does a snat leg whose nat leg is gone (%s)', (tier) => {
    if (tier === 'main') establish();
    else {
      publish(drive, family, masquerade);
      send('tcp SYN');
    }
    ageAll(tier, 25);
    drive.clear('nat', tier, family);
    drive.clear('flow', tier, family);
    expect(round()).toMatchObject({ orphans: 1 });
    expect(entries(tier)).toEqual(NONE);
  });

  test.each(['flow', 'nat'] as const)(
    'a port that another flow has by now stays its (%s)',
    (gone) => {
      const other = names(family).client(40_001);
      establish();
      answer('tcp RST');
      drive.putSettings({
        snatPorts: { first: 40_000, last: 40_000 },
        localPorts: { first: 40_001, last: 40_001 },
      });
      expect(drive.through(`${other} > ${vip()} tcp SYN`)).toBe(
        `${node(40_000)} > ${pod(5)} tcp SYN`,
      );
      if (gone === 'nat') drive.clear('flow', 'main', family);
      age('flow', 30_000);
      age('nat', 30_000);
      round();
      expect(drive.nats('main', family)).toEqual([]);
      expect(answer('tcp SYN ACK')).toBe(`${vip()} > ${other} tcp SYN ACK`);
    },
  );

  test('idle legs of a flow that lives stay', () => {
    establish();
    ageAll('main', 1000);
    expect(round()).toMatchObject({ expired: 0, orphans: 0 });
    expect(entries('main')).toEqual([1, 1, 1]);
  });

  test('a round counts what is in each table afterwards', () => {
    establish();
    send('tcp SYN', 40_001);
    expect([...sweep.used()]).toEqual([]);
    round();
    const used = (leg: string): number | undefined => sweep.used().get(`fl_${leg}${digit}`);
    const legs = ['flow', 'nat', 'snat', 'new_flow', 'new_nat', 'new_snat'];
    expect(legs.map(used)).toEqual([1, 1, 1, 1, 1, 1]);
    ageAll('main', 30_000);
    round();
    expect(legs.map(used)).toEqual([0, 0, 0, 1, 1, 1]);
  });

  test.runIf(by === 'kernel')(
    'every entry is looked at once in a round, whatever the number of parts',
    () => {
      publish(drive, family, { protocol: 'UDP' });
      for (let n = 0; n < 50; n++) send('udp payload=1', 41_000 + n);
      const parts = sweepOf(() => 65_536 * 7);
      expect(parts.steps).toBe(12 * 7);
      for (let step = 0; step < parts.steps; step++) parts.step();
      expect(parts.total()).toMatchObject({ entries: 100, expired: 0 });
    },
  );
});
