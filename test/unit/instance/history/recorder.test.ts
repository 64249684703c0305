// SPDX-License-Identifier: Apache-2.0
// What is programmed is on disk, in files of the test: through restarts, ends at any byte, full disks, and more than fits.
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { frameOf } from '../../../../src/history/frame.ts';
import { timelineOf } from '../../../../src/history/timeline.ts';
import {
  readSegments,
  segmentNumbers,
  segmentPath,
} from '../../../../src/instance/history/files.ts';
import { Ring } from '../../../../src/instance/history/ring.ts';
import { remove } from '../../../support/objects.ts';
import { ready, service, slice } from '../../plan/support.ts';
import { backendsIn, recordsIn, type Simulated, simulate } from './support.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'fairlead-history-'));
});
const agents: Simulated[] = [];
afterEach(async () => {
  for (const agent of agents.splice(0)) {
    agent.recorder.close();
    await agent.written();
  }
  rmSync(dir, { recursive: true });
});

const web = service('web', 10);
const pods = (...last: readonly number[]) =>
  slice(
    'web',
    last.map((n) => ready(`10.1.0.${n}`)),
    {
      metadata: {
        name: 'web-1',
        resourceVersion: String(last.length),
        labels: { 'kubernetes.io/service-name': 'web' },
        annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': '1970-01-01T00:16:38Z' },
      },
    },
  );
const textsOf = (...last: readonly number[]) => last.map((n) => `10.1.0.${n}:8080`);

async function start(options?: Parameters<typeof simulate>[1], ...last: readonly number[]) {
  const agent = simulate(dir, options);
  agents.push(agent);
  agent.change(web, pods(...last));
  await agent.written();
  return agent;
}

async function changed(agent: Awaited<ReturnType<typeof start>>, ...last: readonly number[]) {
  agent.change(pods(...last));
  agent.clock.advance(250);
  await agent.written();
}

test('the first state, and each change with its event and how long it took', async () => {
  const agent = await start({}, 5);
  expect(backendsIn(dir)).toEqual(textsOf(5));
  await changed(agent, 5, 6);
  expect(backendsIn(dir)).toEqual(textsOf(5, 6));
  const [entry] = timelineOf(readSegments(dir), { last: 1 }).entries;
  expect(entry?.events).toEqual([
    {
      ...{ kind: 'EndpointSlice', name: 'default/web-1', rv: '2' },
      ...{ at: 1_000_000, trigger: 998_000, took: 0 },
    },
  ]);
});

test('removed objects say why, too', async () => {
  const agent = await start({}, 5);
  agent.change(remove(pods(5)));
  agent.clock.advance(250);
  await agent.written();
  const [entry] = timelineOf(readSegments(dir), { last: 1 }).entries;
  expect(entry?.events).toMatchObject([{ name: 'default/web-1', removed: true }]);
  agent.change(remove(web));
  agent.clock.advance(250);
  await agent.written();
  expect(backendsIn(dir)).toBeUndefined();
});

test('what the kernel refused', async () => {
  const agent = await start({}, 5);
  agent.refuse('map is full');
  agent.clock.advance(250);
  await agent.written();
  const [entry] = timelineOf(readSegments(dir), { last: 1 }).entries;
  expect(entry).toMatchObject({ what: 'failed', service: 'default/web', text: 'map is full' });
});

test('a restart continues, and tells what differs', async () => {
  const first = await start({}, 5);
  first.recorder.close();
  await first.written();
  const second = await start({}, 6);
  expect(backendsIn(dir)).toEqual(textsOf(6));
  const { entries } = timelineOf(readSegments(dir));
  expect(entries.map(({ what, isOfStart }) => [what, isOfStart])).toEqual([
    ['start', undefined],
    ['start', undefined],
    ['change', true],
  ]);
  await changed(second, 6, 7);
  expect(backendsIn(dir)).toEqual(textsOf(6, 7));
  expect(segmentNumbers(dir)).toEqual([1]);
  const numbers = recordsIn(dir).map(({ n }) => n);
  expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
  expect(new Set(numbers).size).toBe(numbers.length);
});

test('killed at any byte of a segment, the next start continues and nothing wrong is read', async () => {
  const first = await start({}, 5);
  await changed(first, 5, 6);
  await changed(first, 7);
  const path = segmentPath(dir, 1);
  const whole = readFileSync(path);
  const states = [undefined, textsOf(5), textsOf(5, 6), textsOf(7)];
  const base = `${dir}-whole`;
  cpSync(dir, base, { recursive: true });
  for (let length = 0; length <= whole.length; length += 1) {
    rmSync(dir, { recursive: true });
    cpSync(base, dir, { recursive: true });
    writeFileSync(path, whole.subarray(0, length));
    expect(states, `${length} bytes`).toContainEqual(backendsIn(dir));
    const next = await start({}, 8);
    expect(backendsIn(dir), `after ${length} bytes`).toEqual(textsOf(8));
    await changed(next, 8, 9);
    expect(backendsIn(dir), `after ${length} bytes`).toEqual(textsOf(8, 9));
    next.recorder.close();
    await next.written();
  }
  rmSync(base, { recursive: true });
}, 60_000);

test('a torn record is cut off and counted', async () => {
  const first = await start({}, 5);
  first.recorder.close();
  await first.written();
  const path = segmentPath(dir, 1);
  const whole = readFileSync(path);
  writeFileSync(path, Buffer.concat([whole, whole.subarray(0, 11)]));
  await start({}, 5);
  const starts = timelineOf(readSegments(dir)).entries.filter(({ what }) => what === 'start');
  expect(starts[1]?.text).toContain('11 bytes');
});

test('the oldest segments are removed; each that is left is enough', async () => {
  const maxBytes = 64_000;
  const agent = await start({ maxBytes }, 5);
  for (let n = 0; n < 700; n += 1) await changed(agent, 5, 10 + (n % 200));
  const numbers = segmentNumbers(dir);
  expect(numbers[0]).toBeGreaterThan(1);
  const bytes = numbers.reduce((sum, number) => sum + statSync(segmentPath(dir, number)).size, 0);
  expect(bytes).toBeLessThanOrEqual(maxBytes);
  expect(agent.recorder.view().bytes).toBe(bytes);
  expect(backendsIn(dir)).toEqual(textsOf(10 + (699 % 200), 5).sort());
}, 60_000);

test('a disk that takes nothing is a problem, never an error of a sync; what comes later is whole', async () => {
  const real = new Ring(dir, 2 ** 20);
  let isFull = false;
  const ring = {
    open: () => real.open(),
    append: (bytes: Buffer, isState?: boolean) =>
      isFull ? Promise.reject(new Error('ENOSPC')) : real.append(bytes, isState),
    next: () => real.next(),
    abandon: () => real.abandon(),
    isFull: () => real.isFull(),
    bytes: () => real.bytes(),
  };
  const agent = await start({ ring }, 5);
  isFull = true;
  await changed(agent, 5, 6);
  expect(agent.recorder.view()).toMatchObject({ problem: 'ENOSPC', errors: 1, lostChanges: 1 });
  await changed(agent, 7);
  expect(backendsIn(dir)).toEqual(textsOf(5));
  isFull = false;
  agent.clock.advance(30_000);
  await agent.written();
  expect(agent.recorder.view().problem).toBeUndefined();
  expect(backendsIn(dir)).toEqual(textsOf(7));
  await changed(agent, 8);
  expect(backendsIn(dir)).toEqual(textsOf(8));
  const { entries } = timelineOf(readSegments(dir));
  expect(entries.map(({ what }) => what)).toContain('gap');
  expect(agent.warned).toEqual(['history cannot be written']);
});

test('a disk that does not answer: the queue is bounded, and a sync does not wait', async () => {
  const real = new Ring(dir, 2 ** 20);
  const ring = {
    open: () => new Promise<never>(() => undefined),
    append: () => new Promise<never>(() => undefined),
    ...{ next: () => real.next(), abandon: async () => undefined },
    ...{ isFull: () => true, bytes: () => 0 },
  };
  const agent = simulate(dir, { ring });
  agent.change(web, pods(5));
  for (let n = 0; n < 20_001; n += 1) agent.change(pods(5, 6 + (n % 2)));
  expect(agent.recorder.view().lostChanges).toBeGreaterThan(20_000);
});

test('too small for the full state: it is said, and not written in vain every 30 s', async () => {
  const agent = await start({ maxBytes: 100 }, 5);
  const { problem, errors, writtenBytes } = agent.recorder.view();
  expect(problem).toContain('raise --history-size');
  for (let minute = 0; minute < 59; minute += 1) {
    agent.clock.advance(60_000);
    await agent.written();
  }
  expect(agent.recorder.view()).toMatchObject({ errors, writtenBytes });
  agent.clock.advance(60_000);
  await agent.written();
  expect(agent.recorder.view().errors).toBe(errors + 1);
});

test('the end of the agent before is of no use, by records that are whole: a state of its own begins', async () => {
  const first = await start({}, 5);
  first.recorder.close();
  await first.written();
  const other = { t: 'key', n: 9, at: 1, up: 1, isLast: true } as const;
  writeFileSync(segmentPath(dir, 1), frameOf(other as never));
  const next = await start({}, 6);
  expect(next.recorder.view()).toMatchObject({ errors: 0 });
  expect(backendsIn(dir)).toEqual(textsOf(6));
});
