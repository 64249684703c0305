// SPDX-License-Identifier: Apache-2.0
// What records say of a time: through restarts, pruned segments, and clocks that are set.
import { expect, test } from 'vitest';
import { latenciesOf } from '../../../src/history/latency.ts';
import type { HistoryRecord, ServiceDiff } from '../../../src/history/records.ts';
import { timelineOf } from '../../../src/history/timeline.ts';

const T0 = Date.parse('2026-01-02T12:00:00Z');
const PORT = 'http/TCP/IPv4';
const WEB = 'default/web';

const backends = (plus: string[], minus: string[] = []): ServiceDiff => ({
  [PORT]: { c: [plus, minus] },
});
const change = (n: number, seconds: number, d: ServiceDiff, up = seconds): HistoryRecord => ({
  ...{ n, at: T0 + seconds * 1_000, up: up * 1_000, t: 'sync', ms: 1 },
  services: [{ s: WEB, d }],
});
const key = (n: number, seconds: number, c: string[], isLast = true): HistoryRecord => ({
  ...{ n, at: T0 + seconds * 1_000, up: seconds * 1_000, t: 'key' },
  ...(isLast && { isLast }),
  services: { [WEB]: { [PORT]: { f: [], c } } },
});
const epoch = (n: number, seconds: number): HistoryRecord => ({
  ...{ n, at: T0 + seconds * 1_000, up: seconds * 1_000, t: 'epoch' },
  ...{ boot: 'b', version: '1', node: 'n1' },
});

const backendsAt = (segments: HistoryRecord[][], seconds: number): readonly string[] | undefined =>
  timelineOf(segments, { untilMs: T0 + seconds * 1_000 }).services.get(WEB)?.state[PORT]?.c;

const SEGMENT = [
  key(1, 0, ['a']),
  epoch(2, 0),
  change(3, 10, backends(['b'])),
  change(4, 20, backends([], ['a'])),
  change(5, 30, null),
];

test('each time has the backends of the last change before it', () => {
  const at = (seconds: number) => backendsAt([SEGMENT], seconds);
  expect([5, 10, 15, 25, 35].map(at)).toEqual([['a'], ['a', 'b'], ['a', 'b'], ['b'], undefined]);
});

test('a time after which segments were pruned is answered by what is left', () => {
  const later = [key(6, 40, ['c']), change(7, 50, backends(['d']))];
  expect(backendsAt([SEGMENT, later], 25)).toEqual(['b']);
  expect(backendsAt([later], 45)).toEqual(['c']);
  expect(timelineOf([later]).from).toBe('2026-01-02T12:00:40.000Z');
});

test('a full state that was cut off is none', () => {
  expect(backendsAt([SEGMENT.slice(0, 3), [key(6, 40, ['c'], false)]], 45)).toEqual(['a', 'b']);
});

test('a damaged end of a segment is made good by the next one', () => {
  expect(backendsAt([SEGMENT.slice(0, 3), [key(6, 40, ['c'])]], 45)).toEqual(['c']);
});

test('a clock that is set back: the order stays, and the later record with a time counts', () => {
  const records = [...SEGMENT.slice(0, 3), change(4, 5, backends(['c']), 20)];
  const { entries, services } = timelineOf([records]);
  expect(entries.map(({ what }) => what)).toEqual(['start', 'change', 'clock', 'change']);
  expect(entries[2]?.text).toBe('the clock was set back by 15 s');
  expect(services.get(WEB)?.state[PORT]?.c).toEqual(['a', 'b', 'c']);
  expect(backendsAt([records], 7)).toEqual(['a', 'b', 'c']);
  expect(backendsAt([records], 4)).toEqual(['a']);
});

test('one Service alone, and the last lines alone', () => {
  const { entries } = timelineOf([SEGMENT], { service: 'default/other' });
  expect(entries.map(({ what }) => what)).toEqual(['start']);
  expect(timelineOf([SEGMENT], { last: 1 }).entries[0]?.difference).toBeNull();
});

test('the change that made it so, with its event', () => {
  const record = change(3, 10, backends(['b']));
  const e = [{ kind: 'EndpointSlice', name: 'default/web-x', rv: '7', at: T0 + 9_990, took: 10 }];
  const because = { ...record, services: [{ s: WEB, d: backends(['b']), e }] } as HistoryRecord;
  const held = timelineOf([[key(1, 0, ['a']), because]]).services.get(WEB);
  expect(held?.since?.events).toEqual(e);
});

test('latencies: from the event by its own clock, from the trigger by the clocks of both', () => {
  const events = [10, 20, 30, 1_000].map((took) => ({
    ...{ kind: 'EndpointSlice', name: 'default/web-x', at: T0, took, trigger: T0 - 2_000 },
  }));
  const at = new Date(T0).toISOString();
  const [web] = latenciesOf([{ at, what: 'change', service: WEB, events }]);
  expect(web?.fromEvent).toEqual({ count: 4, p50Ms: 20, p99Ms: 1_000 });
  expect(web?.fromTrigger).toEqual({ count: 4, p50Ms: 2_000, p99Ms: 2_000 });
});
