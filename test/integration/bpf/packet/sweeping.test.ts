// SPDX-License-Identifier: Apache-2.0
// What the agent does beside the sweep after each round: marks that no flow needs are cleared.
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connSizes } from '../../../../src/engines/bpf/conn/sizes.ts';
import { pinFolder } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import { arrayTable } from '../../../../src/engines/bpf/kernel/maps/kernel.ts';
import { loadSweep, startSweeping } from '../../../../src/engines/bpf/kernel/packet/sweeping.ts';
import { mapPin, type PinnedMap } from '../../../../src/engines/bpf/layout/versions.ts';
import { element } from '../../../../src/engines/bpf/state/tables.ts';
import type { Clock } from '../../../../src/lib/clock.ts';
import { openPinnedMap, waitGracePeriod } from '../../../../src/sys/native.ts';
import { until } from '../../../support/until.ts';
import { makeBpffs, type TestResource } from '../../native/support/resources.ts';
import { sweepObject } from '../support/drive.ts';

const STEPS = 1_000;
const BUCKETS = 1_024;
const sizes = connSizes(BUCKETS);
const object = readFileSync(sweepObject);
let bpffs: TestResource;

beforeAll(() => {
  bpffs = makeBpffs();
});
afterAll(() => bpffs?.release());

/** Time passes when next() is called. */
function steppedClock() {
  const waiting: (() => void)[] = [];
  const clock: Clock = {
    nowMs: () => 0,
    monotonicMs: () => 0,
    random: () => 0,
    after(_, action) {
      waiting.push(action);
      return () => waiting.splice(0);
    },
  };
  return { clock, next: () => waiting.shift()?.() };
}

/** Maps of an agent, and a sweep over them that has not begun. */
async function prepare(name: string) {
  const bpfRoot = join(bpffs.path, name);
  const { maps } = pinFolder(bpfRoot);
  mkdirSync(maps, { recursive: true });
  const { close: unload } = await loadSweep({ object, bpfRoot, sizes });
  unload();
  const map = (name: string) => openPinnedMap(join(maps, mapPin(name as PinnedMap)));
  const marks = arrayTable(map('fl_mark'));
  const tables = {
    ...{ marks, counts: arrayTable(map('fl_conn_count')), buckets: () => BUCKETS },
    shared: { backendFlows: arrayTable(map('fl_be_flows')) },
  };
  return { maps, map, marks, parts: { object, bpfRoot, sizes, tables } };
}

test('marks of no flow are gone after some rounds', async () => {
  const { marks, parts } = await prepare('root');
  const lines = Array.from({ length: marks.length - 1 }, (_, line) => element(marks, line));
  for (const line of lines) line.fill(1);
  const isClear = (): boolean => lines.every((line) => line.every((mark) => mark === 0));
  const { clock, next } = steppedClock();
  const log = { info: expect.unreachable, warn: expect.unreachable };
  const sweeping = startSweeping({ ...parts, clock, log });
  try {
    for (let step = 0; step < STEPS && !isClear(); step += 1) {
      await waitGracePeriod();
      next();
    }
    expect(isClear()).toBe(true);
  } finally {
    sweeping.close();
  }
});

test('a sweep that is not loaded says so, and is loaded later', async () => {
  const { maps, map, parts } = await prepare('later');
  const pin = join(maps, mapPin('fl_swept'));
  rmSync(pin);
  map('fl_mark').pin(pin);
  const { clock, next } = steppedClock();
  const warnings: unknown[] = [];
  const looks: unknown[] = [];
  const log = { warn: (_: unknown, text?: string) => void warnings.push(text) };
  const look = (occupancy: unknown) => void looks.push(occupancy);
  const sweeping = startSweeping({ ...parts, clock, log, look });
  try {
    await until(() => warnings.length > 0, 'it is not loaded');
    expect(warnings).toEqual([expect.stringMatching(/no connection .* expires.* again in ten/)]);
    expect(sweeping.fill()).not.toEqual([]);
    rmSync(pin);
    next();
    await until(() => {
      next();
      return looks.length > 0;
    }, 'it sweeps');
    expect(warnings).toHaveLength(1);
  } finally {
    sweeping.close();
  }
});

test('closed before the kernel has loaded it: nothing runs, and nothing is thrown', async () => {
  const { map, parts } = await prepare('closed');
  const [marks, counts, flows] = [map('fl_mark'), map('fl_conn_count'), map('fl_be_flows')];
  const bucketsMap = map('fl_client4');
  const { clock, next } = steppedClock();
  const tables = {
    ...{ marks: arrayTable(marks), counts: arrayTable(counts) },
    buckets: () => bucketsMap.info.maxEntries,
    shared: { backendFlows: arrayTable(flows) },
  };
  const log = { info: expect.unreachable, warn: expect.unreachable };
  const sweeping = startSweeping({ ...parts, tables, clock, log });
  sweeping.close();
  for (const one of [marks, counts, flows, bucketsMap]) one.close();
  // The kernel verifies in turn: this one is loaded later.
  const { close: unload } = await loadSweep(parts);
  unload();
  await new Promise(setImmediate);
  expect(sweeping.fill()).toEqual([]);
  expect(next()).toBeUndefined();
});
