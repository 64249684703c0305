// SPDX-License-Identifier: Apache-2.0
// The count of living flows of a backend: exact while programs make and delete flows, and corrected by the sweep where they
// could not.
import { beforeEach, describe, expect, test } from 'vitest';
import { flowTables } from '../../../../src/dataplane/bpf/flows/kernel.ts';
import { createBatchSweep } from '../../../../src/dataplane/bpf/flows/sweep/batch-sweep.ts';
import {
  createRecount,
  livingFlows,
  type Recount,
} from '../../../../src/dataplane/bpf/flows/sweep/recount.ts';
import type { Sweep } from '../../../../src/dataplane/bpf/flows/sweep/sweep.ts';
import { arrayTable, kernelTables } from '../../../../src/dataplane/bpf/maps/kernel.ts';
import { encodeU32 } from '../../../../src/dataplane/bpf/maps/layout.ts';
import { SETTINGS } from '../packet/support/packet-drive.ts';
import { sharedDrive } from '../packet/support/shared-drive.ts';
import { names, publish } from '../packet/support/stage.ts';
import { kernelSweep, refusal } from '../packet/support/sweeps.ts';

const drive = sharedDrive();
const refused = refusal();
const tables = kernelTables((name) => drive.object.map(name));
/** Seconds of its first packet, in struct flow. */
const BORN_AT = 20;
const monotonicMs = (): number => Number(process.hrtime.bigint() / 1_000_000n);

const CASES = (['kernel', 'agent'] as const).flatMap((by) =>
  (['IPv4', 'IPv6'] as const).map((family) => ({ by, family })),
);

describe.each(CASES)('swept by the $by, $family', ({ by, family }) => {
  const { client, vip, pod } = names(family);
  const digit = family === 'IPv4' ? 4 : 6;
  let sweep: Sweep;
  let recount: Recount;
  /** Of rounds, to be sure on a slow machine which flows are older than one. */
  let aheadMs: number;

  beforeEach((context) => {
    if (by === 'kernel' && refused !== undefined) context.skip(refused);
    aheadMs = 0;
    recount = createRecount({ tables, nowMs: () => monotonicMs() + aheadMs });
    sweep = by === 'kernel' ? kernelSweep(drive) : batchSweep();
    recount.turn(false);
  });

  const batchSweep = (): Sweep =>
    createBatchSweep({
      flows: flowTables((name) => drive.object.map(name)),
      traffic: arrayTable(drive.object.map('fl_traffic')),
      timeouts: SETTINGS.timeoutSeconds,
      recount,
      nowSeconds: () => Math.floor(monotonicMs() / 1000),
    });
  const round = (): void => {
    while (!sweep.step());
    recount.turn(true);
  };
  const send = (word: string, port = 40_000) => drive.through(`${client(port)} > ${vip()} ${word}`);
  const answer = (word: string, port = 40_000) =>
    drive.through(`${pod(5)} > ${client(port)} ${word}`);
  const living = (): number => livingFlows(tables.backendFlows, 1);
  const stored = (): number =>
    drive.flows('main', family).length + drive.flows('new', family).length;
  function establish(port: number): void {
    send('tcp SYN', port);
    answer('tcp SYN ACK', port);
    send('tcp ACK', port);
  }
  /** As LRU eviction does it: without a word. */
  function evict(table: string): void {
    const map = drive.object.map(`fl_${table}${digit}`);
    map.deleteBatch(map.readAll().keys);
  }
  const age = (table: string, seconds: number): void =>
    advance(table, table.endsWith('flow') ? 16 : 4, seconds);
  function advance(table: string, at: number, seconds: number): void {
    drive.edit(`fl_${table}${digit}`, (value) => {
      const view = new DataView(value.buffer, value.byteOffset);
      view.setUint32(at, view.getUint32(at, true) - seconds, true);
    });
  }

  test('a flow counts from its first packet until it has expired, and moving to the main table changes nothing', () => {
    publish(drive, family);
    expect(living()).toBe(0);
    send('tcp SYN');
    send('tcp SYN');
    expect(living()).toBe(1);
    establish(40_000);
    establish(40_001);
    expect([living(), drive.flows('main', family).length]).toEqual([2, 2]);
    for (let n = 0; n < 3; n++) round();
    expect(living()).toBe(2);
    answer('tcp FIN ACK');
    send('tcp FIN ACK');
    age('flow', 20);
    age('nat', 20);
    round();
    expect([living(), stored()]).toEqual([1, 1]);
    round();
    expect(living()).toBe(1);
  });

  test('datagrams count by their flows, answered or not', () => {
    publish(drive, family, { protocol: 'UDP' });
    for (const port of [40_001, 40_002, 40_003]) {
      send('udp payload=1', port);
      send('udp payload=1', port);
    }
    answer('udp payload=1', 40_001);
    expect(living()).toBe(3);
    round();
    round();
    expect(living()).toBe(3);
    for (const leg of ['flow', 'nat']) age(`new_${leg}`, 31);
    round();
    round();
    expect([living(), stored()]).toEqual([0, 0]);
  });

  test('what a full table evicts is counted for two rounds at most', () => {
    publish(drive, family);
    aheadMs = 60_000;
    recount.turn(false);
    establish(40_000);
    for (let port = 41_000; port < 41_050; port++) send('tcp SYN', port);
    expect(living()).toBe(51);
    evict('new_flow');
    expect(living()).toBe(51);
    round();
    expect(living()).toBe(1);
    // Began in the round: the next one knows.
    advance('flow', BORN_AT, 100);
    aheadMs = -60_000;
    recount.turn(false);
    send('tcp SYN', 42_000);
    evict('new_flow');
    round();
    expect(living()).toBe(2);
    round();
    expect(living()).toBe(1);
  });

  test('flows that began before they were counted are, after a round, and never less than none', () => {
    publish(drive, family);
    for (const port of [40_000, 40_001, 40_002]) establish(port);
    new Int32Array(drive.object.map('fl_be_flows').mmap()).fill(0);
    answer('tcp RST', 40_000);
    age('flow', 20);
    age('nat', 20);
    while (!sweep.step());
    expect(stored()).toBe(2);
    expect(living()).toBe(0);
    recount.turn(true);
    round();
    expect(living()).toBe(2);
  });

  test('a flow that its client begins anew counts once', () => {
    publish(drive, family);
    for (let n = 0; n < 3; n++) {
      establish(40_000);
      answer('tcp FIN ACK');
      send('tcp FIN ACK');
    }
    send('tcp SYN');
    expect([living(), stored()]).toEqual([1, 1]);
    round();
    expect(living()).toBe(1);
  });

  test('the flows of a backend whose id is another one’s now are not that one’s', () => {
    publish(drive, family);
    for (const port of [40_000, 40_001]) establish(port);
    drive.object.map('fl_be_flows').put(encodeU32(1), new Uint8Array(16));
    publish(drive, family, { backends: [{ generation: 2 }] });
    round();
    expect(living()).toBe(0);
    establish(40_005);
    age('flow', 90_000);
    age('nat', 90_000);
    round();
    expect([living(), stored()]).toEqual([0, 0]);
  });

  test('an end in the middle of a round is not corrected away', () => {
    publish(drive, family);
    for (const port of [40_000, 40_001, 40_002]) establish(port);
    round();
    while (!sweep.step());
    // The sweep has met it: its client begins anew, and finds no backend.
    publish(drive, family, { backends: [{ state: 'GONE' }] });
    send('tcp SYN', 40_000);
    expect([living(), stored()]).toEqual([2, 2]);
    recount.turn(true);
    expect(living()).toBe(2);
    round();
    expect(living()).toBe(2);
  });
});
