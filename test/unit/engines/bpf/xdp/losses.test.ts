// SPDX-License-Identifier: Apache-2.0
// Frames sent and lost -> whether a device loses too many.
import { expect, test } from 'vitest';
import { createLossWindow } from '../../../../../src/engines/bpf/xdp/losses.ts';
import { tryDevice } from '../../../../../src/engines/bpf/xdp/trying.ts';

type Reading = readonly [seconds: number, sent: number, lost: number];

/** The reason of the last reading. */
function judged(readings: readonly Reading[]): string | undefined {
  const window = createLossWindow();
  return readings.map(([seconds, sent, lost]) => window.add(seconds * 1000, { sent, lost })).at(-1);
}

test.each<readonly [string, readonly Reading[], string | undefined]>([
  [
    'none',
    [
      [0, 0, 0],
      [2, 1000, 0],
    ],
    undefined,
  ],
  [
    'a few of many',
    [
      [0, 0, 0],
      [2, 100_000, 900],
    ],
    undefined,
  ],
  [
    'a few of few: one burst',
    [
      [0, 0, 0],
      [2, 0, 15],
    ],
    undefined,
  ],
  [
    'all',
    [
      [0, 0, 0],
      [2, 0, 16],
    ],
    'its driver lost 16 of 16 frames of XDP within 10 s',
  ],
  [
    'over 1 %',
    [
      [0, 0, 0],
      [2, 1500, 16],
    ],
    'its driver lost 16 of 1516 frames of XDP within 10 s',
  ],
  [
    '1 %',
    [
      [0, 0, 0],
      [2, 1584, 16],
    ],
    undefined,
  ],
  [
    'those before the beginning',
    [
      [0, 7, 500],
      [2, 8, 500],
    ],
    undefined,
  ],
  [
    'slowly',
    [
      [0, 0, 0],
      [5, 10, 10],
      [11, 20, 15],
      [16, 30, 20],
    ],
    undefined,
  ],
  [
    'in one window',
    [
      [0, 0, 0],
      [5, 10, 10],
      [9, 20, 20],
    ],
    'its driver lost 20 of 40 frames of XDP within 10 s',
  ],
])('%s', (_, readings, expected) => {
  expect(judged(readings)).toBe(expected);
});

const trial = (taken: number, received: number) => ({
  send: () => ({ taken, of: 8 }),
  received: () => received,
  trust: () => undefined,
  end: () => undefined,
});

test.each([
  ['all taken, one came in', 8, 1, 0, { kind: 'passed' }],
  [
    'some taken',
    7,
    1,
    0,
    { kind: 'going on', reason: 'its driver took 7 of 8 frames that XDP sent' },
  ],
  [
    'some taken, at the end',
    7,
    1,
    10_000,
    { kind: 'failed', reason: 'its driver took 7 of 8 frames that XDP sent' },
  ],
  [
    'none came in',
    8,
    0,
    9999,
    { kind: 'going on', reason: 'it is being tried: no frame has come in by XDP yet' },
  ],
  [
    'none came in, at the end',
    8,
    0,
    10_000,
    { kind: 'failed', reason: 'no frame came in by XDP within 10 s' },
  ],
  ['passed at the end', 8, 1, 10_000, { kind: 'passed' }],
] as const)('a trial: %s', (_, taken, received, forMs, expected) => {
  expect(tryDevice(trial(taken, received), forMs)).toEqual(expected);
});
