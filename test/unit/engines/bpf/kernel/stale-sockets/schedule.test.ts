// SPDX-License-Identifier: Apache-2.0
// When passes run, and what they log.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  BATCH_MS,
  createSchedule,
  LATER_LOOK_MS,
  type Schedule,
  SECOND_LOOK_MS,
} from '../../../../../../src/engines/bpf/kernel/stale-sockets/schedule.ts';
import {
  NONE_STALE,
  type PassReport,
} from '../../../../../../src/engines/bpf/stale-sockets/pass.ts';

const destroyed = (count: number): PassReport => ({
  ...NONE_STALE,
  destroyed: [{ protocol: 'UDP', family: 'IPv4', count }],
});
const left = (...reasons: string[]): PassReport => ({
  ...NONE_STALE,
  left: reasons.map((reason, index) => ({ reason, count: index + 1 })),
});

let passes: number[];
let reports: (PassReport | Error)[];
let told: string[];
let takesMs: number;
let grace: () => Promise<void>;
let schedule: Schedule;

beforeEach(() => {
  vi.useFakeTimers();
  passes = [];
  reports = [];
  told = [];
  takesMs = 0;
  grace = () => Promise.resolve();
  const tell =
    (level: string) =>
    (fields: object, text?: string): void =>
      void told.push(`${level} ${text} ${Object.values(fields).join(' ')}`);
  schedule = createSchedule({
    waitGracePeriod: () => grace(),
    log: { info: tell('info'), warn: tell('warn') } as never,
    runPass: async () => {
      passes.push(Date.now() - start);
      if (takesMs > 0) await new Promise((resolve) => setTimeout(resolve, takesMs));
      const report = reports.shift() ?? NONE_STALE;
      if (report instanceof Error) throw report;
      return report;
    },
  });
  start = Date.now();
});
afterEach(() => {
  schedule.close();
  vi.useRealTimers();
});
let start = 0;
const after = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

test('requests within a batch make one pass, and one more a second later', async () => {
  schedule.request();
  await after(BATCH_MS - 10);
  schedule.request();
  await after(10_000);
  expect(passes).toEqual([BATCH_MS, BATCH_MS + SECOND_LOOK_MS]);
});

test('a request while a pass runs makes another one after it', async () => {
  takesMs = 200;
  schedule.request();
  await after(BATCH_MS + 10);
  schedule.request();
  schedule.request();
  await after(10_000);
  const second = 200 + 2 * BATCH_MS;
  expect(passes).toEqual([BATCH_MS, second, second + 200 + SECOND_LOOK_MS]);
});

test('a request before the second look comes first', async () => {
  schedule.request();
  await after(500);
  schedule.request();
  await after(10_000);
  expect(passes).toEqual([BATCH_MS, 500 + BATCH_MS, 500 + BATCH_MS + SECOND_LOOK_MS]);
});

test('what did not fit into a pass is destroyed by the next', async () => {
  reports = [{ ...destroyed(8), hasMore: true }, { ...destroyed(8), hasMore: true }, destroyed(3)];
  schedule.request();
  await after(4 * BATCH_MS);
  expect(passes).toEqual([BATCH_MS, 2 * BATCH_MS, 3 * BATCH_MS]);
  expect(schedule.counts().destroyed).toEqual([{ protocol: 'UDP', family: 'IPv4', count: 19 }]);
});

test('a pass waits for the programs that run', async () => {
  let end = (): void => undefined;
  grace = () =>
    new Promise((resolve) => {
      end = resolve;
    });
  schedule.request();
  await after(10_000);
  expect(passes).toEqual([]);
  end();
  await after(0);
  expect(passes).toHaveLength(1);
});

test('one reason is logged once, also when counts change, and again after it was gone', async () => {
  reports = [left('a', 'b'), left('b', 'a'), new Error('no memory'), new Error('no memory')];
  schedule.request();
  await after(SECOND_LOOK_MS + 2 * BATCH_MS);
  expect(schedule.counts().left).toEqual(left('b', 'a').left);
  schedule.request();
  await after(10_000);
  expect(schedule.counts().left).toEqual([{ reason: 'no memory', count: 0 }]);
  schedule.request();
  await after(10_000);
  expect(schedule.counts().left).toEqual([]);
  reports = [left('a')];
  schedule.request();
  await after(BATCH_MS);
  const warned = (reason: string, count: number): string =>
    `warn stale sockets could not be destroyed ${reason} ${count}`;
  expect(told).toEqual([warned('a', 1), warned('b', 2), warned('no memory', 0), warned('a', 1)]);
});

test('what is destroyed is logged', async () => {
  reports = [destroyed(2)];
  schedule.request();
  await after(BATCH_MS);
  expect(told).toEqual(['info stale sockets destroyed UDP IPv4 2 0']);
});

test('closed during a pass: nothing more is logged or counted', async () => {
  takesMs = 100;
  reports = [new Error('closed')];
  schedule.request();
  await after(BATCH_MS + 10);
  schedule.close();
  await after(10_000);
  expect([told, schedule.counts().left]).toEqual([[], []]);
});

test('closed: no pass follows, not even after a wait', async () => {
  schedule.request();
  schedule.close();
  await after(10_000);
  expect(passes).toEqual([]);
  schedule.request();
  await after(10_000);
  expect(passes).toEqual([]);
});

test.each<[string, PassReport | Error]>([
  ['a pass that fails', new Error('no memory')],
  ['a namespace that cannot be searched', { ...left('setns: ENOMEM'), isSearched: false }],
])('%s: another one follows, until all are searched', async (_, outcome) => {
  reports = [outcome, outcome, outcome];
  schedule.request();
  await after(10 * LATER_LOOK_MS);
  const second = BATCH_MS + SECOND_LOOK_MS;
  expect(passes).toEqual([BATCH_MS, second, second + LATER_LOOK_MS, second + 2 * LATER_LOOK_MS]);
  expect(told).toHaveLength(1);
  expect(schedule.counts().left).toEqual([]);
});

test('as long as sockets are refused, passes follow; their number is logged when it grows', async () => {
  const refused = (count: number): PassReport => ({ ...NONE_STALE, refused: count });
  reports = [refused(2), refused(2), refused(1), NONE_STALE];
  schedule.request();
  await after(10 * LATER_LOOK_MS);
  const second = BATCH_MS + SECOND_LOOK_MS;
  expect(passes).toEqual([BATCH_MS, second, second + LATER_LOOK_MS, second + 2 * LATER_LOOK_MS]);
  expect(told).toEqual(['info stale sockets of pods are refused with their next datagram 2']);
  expect(schedule.counts().refused).toBe(0);
});

test('those that go on with another backend: told, counted, and looked after while they are named or wait', async () => {
  reports = [
    { ...NONE_STALE, connected: 2, waiting: 1 },
    { ...NONE_STALE, connected: 1, served: 3 },
    NONE_STALE,
  ];
  schedule.request();
  await after(10 * LATER_LOOK_MS);
  const second = BATCH_MS + SECOND_LOOK_MS;
  expect(passes).toEqual([BATCH_MS, second, second + LATER_LOOK_MS]);
  expect(told).toEqual([
    'info stale sockets connected again 2 0',
    'info stale sockets connected again 1 0',
    'info datagrams of stale sockets of pods go to another backend as packets 3',
  ]);
  expect(schedule.counts()).toMatchObject({ connected: 3, served: 0, waiting: 0 });
});
