// SPDX-License-Identifier: Apache-2.0
// The count of living flows of a backend: exact while programs make and delete flows, and corrected by the sweep where they
// could not.
import { beforeEach, describe, expect, test } from 'vitest';
import {
  createRecount,
  livingFlows,
  type Recount,
} from '../../../../src/engines/bpf/flows/sweep/recount.ts';
import type { Sweep } from '../../../../src/engines/bpf/flows/sweep/sweep.ts';
import { kernelTables } from '../../../../src/engines/bpf/kernel/maps/kernel.ts';
import { encodeU32 } from '../../../../src/engines/bpf/layout/layout.ts';
import { sharedDrive } from '../packet/support/shared-drive.ts';
import { names, publish } from '../packet/support/stage.ts';
import { kernelSweep } from '../packet/support/sweeps.ts';

const drive = sharedDrive();
const tables = kernelTables((name) => drive.object.map(name));
const monotonicMs = (): number => Number(process.hrtime.bigint() / 1_000_000n);

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, pod } = names(family);
  let sweep: Sweep;
  let recount: Recount;
  /** Of rounds, to be sure on a slow machine which flows are older than one. */
  let aheadMs: number;

  beforeEach(() => {
    aheadMs = 0;
    recount = createRecount({ tables, nowMs: () => monotonicMs() + aheadMs });
    sweep = kernelSweep(drive);
    recount.turn(false);
  });

  const round = (): void => {
    while (!sweep.step());
    recount.turn(true);
  };
  const send = (word: string, port = 40_000) => drive.through(`${client(port)} > ${vip()} ${word}`);
  const answer = (word: string, port = 40_000) =>
    drive.through(`${pod(5)} > ${client(port)} ${word}`);
  const living = (): number => livingFlows(tables.backendFlows, 1);
  const stored = (): number => drive.conns(family).length;
  function establish(port: number): void {
    send('tcp SYN', port);
    answer('tcp SYN ACK', port);
    send('tcp ACK', port);
  }
  test('a flow counts from its first packet until it has expired, and its confirmation changes nothing', () => {
    publish(drive, family);
    expect(living()).toBe(0);
    send('tcp SYN');
    send('tcp SYN');
    expect(living()).toBe(1);
    establish(40_000);
    establish(40_001);
    expect([living(), drive.confirmed(family).length]).toEqual([2, 2]);
    for (let n = 0; n < 3; n++) round();
    expect(living()).toBe(2);
    answer('tcp FIN ACK');
    send('tcp FIN ACK');
    drive.age(20, family);
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
    drive.age(31, family);
    round();
    round();
    expect([living(), stored()]).toEqual([0, 0]);
  });

  test('what is lost without a word is counted for two rounds at most', () => {
    publish(drive, family);
    aheadMs = 60_000;
    recount.turn(false);
    for (let port = 41_000; port < 41_050; port++) send('tcp SYN', port);
    expect(living()).toBe(50);
    drive.forgetConns(family);
    expect(living()).toBe(50);
    round();
    expect(living()).toBe(0);
  });

  test('flows that began before they were counted are, after a round, and never less than none', () => {
    publish(drive, family);
    for (const port of [40_000, 40_001, 40_002]) establish(port);
    new Int32Array(drive.object.map('fl_be_flows').mmap()).fill(0);
    answer('tcp RST', 40_000);
    drive.age(20, family);
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
    drive.age(90_000, family);
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
