// SPDX-License-Identifier: Apache-2.0
// Times and lines of `fairlead history`.
import { expect, test } from 'vitest';
import { changeText, reasonTexts } from '../../../../src/cli/history/text.ts';
import { timeMs } from '../../../../src/cli/history/time.ts';

const NOW = Date.parse('2026-01-02T12:00:00Z');
const iso = (text: string): string | undefined => {
  const ms = timeMs(text, NOW);
  return ms === undefined ? undefined : new Date(ms).toISOString();
};

test('a time has its whole second, or minute', () => {
  expect(iso('2026-01-01T12:03:07Z')).toBe('2026-01-01T12:03:07.999Z');
  expect(iso('2026-01-01 12:03')).toBe('2026-01-01T12:03:59.999Z');
  expect(iso('2026-01-01T12:03:07.250+01:00')).toBe('2026-01-01T11:03:07.250Z');
});

test('a time alone is one of the last 24 hours', () => {
  expect(iso('11:59:00')).toBe('2026-01-02T11:59:00.999Z');
  expect(iso('12:03:07')).toBe('2026-01-01T12:03:07.999Z');
});

test('other words are no time', () => {
  expect(['', 'now', '25:99', '2026', '2026-99-01T12:00:00Z'].map(iso)).toEqual(
    Array(5).fill(undefined),
  );
});

const at = '2026-01-02T12:00:00.000Z';

test('a change says what came and what went', () => {
  const difference = { 'http/TCP/IPv4': { c: [['10.1.0.6:80'], ['10.1.0.5:80']] } } as const;
  expect(changeText({ at, what: 'change', difference })).toEqual(['+10.1.0.6:80', '-10.1.0.5:80']);
  expect(changeText({ at, what: 'change', difference: null })).toEqual(['removed']);
  expect(changeText({ at, what: 'change', difference: {} })).toEqual(['backends are the same']);
});

test('the reason names object, version, and times', () => {
  const event = { kind: 'EndpointSlice', name: 'default/web-1', rv: '7', at: NOW, trigger: NOW };
  expect(reasonTexts({ at, what: 'change', events: [event], moreEvents: 2 })).toEqual([
    'EndpointSlice default/web-1 resourceVersion 7 triggered 12:00:00.000 received 12:00:00.000',
    '2 more events',
  ]);
});
