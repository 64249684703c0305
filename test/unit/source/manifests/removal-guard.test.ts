// SPDX-License-Identifier: Apache-2.0
// When a change of the folder waits, and for how long.
import { describe, expect, test } from 'vitest';
import { createRemovalGuard } from '../../../../src/source/manifests/removal-guard.ts';

const DELAY_MS = 30_000;

function guarded(delayMs = DELAY_MS) {
  let ms = 0;
  const clock = { nowMs: () => Date.parse('2026-11-27T15:00:00Z') + ms, monotonicMs: () => ms };
  const guard = createRemovalGuard('/m', delayMs, clock);
  /** Of Services 0 to `services` - 1 the first `lost` go. */
  const judge = (lost: number, services: number, first = 0) =>
    guard(
      lost === 0
        ? undefined
        : { before: names(first, services), after: names(first + lost, services - lost) },
    );
  return {
    waitsFor: (...args: Parameters<typeof judge>) => judge(...args)?.leftMs,
    textFor: (...args: Parameters<typeof judge>) => judge(...args)?.problem.reason,
    pass: (by: number) => {
      ms += by;
    },
  };
}

const names = (first: number, count: number): ReadonlyMap<string, number> =>
  new Map(Array.from({ length: count }, (_, index) => [`Service default/s${first + index}`, 1]));

describe('the removal guard', () => {
  test.each([
    [6, 10, DELAY_MS],
    [10, 10, DELAY_MS],
    [5, 10, undefined],
    [9, 9, undefined],
    [0, 100, undefined],
  ])('%i of %i Services wait %s ms', (lost, services, leftMs) => {
    expect(guarded().waitsFor(lost, services)).toBe(leftMs);
  });

  test('lets the removal through when the time is over, and not before', () => {
    const { waitsFor, pass } = guarded();
    waitsFor(8, 10);
    pass(DELAY_MS - 1);
    expect(waitsFor(8, 10)).toBe(1);
    pass(1);
    expect(waitsFor(8, 10)).toBeUndefined();
  });

  test('goes on while files come back one after the other', () => {
    const { waitsFor, textFor, pass } = guarded();
    waitsFor(8, 10);
    pass(1_000);
    expect(waitsFor(3, 10)).toBe(DELAY_MS - 1_000);
    expect(textFor(1, 10)).toMatch(/^1 of 10 Services/);
    expect(waitsFor(0, 10)).toBeUndefined();
    expect(waitsFor(1, 10)).toBeUndefined();
  });

  test('begins anew when the files have been back in between', () => {
    const { waitsFor, pass } = guarded();
    waitsFor(8, 10);
    pass(DELAY_MS - 1);
    expect(waitsFor(0, 10)).toBeUndefined();
    expect(waitsFor(8, 10)).toBe(DELAY_MS);
  });

  test('sees one change in files that go one after the other', () => {
    const { waitsFor, pass } = guarded();
    expect(waitsFor(4, 20)).toBeUndefined();
    pass(10);
    expect(waitsFor(4, 16, 4)).toBeUndefined();
    pass(10);
    expect(waitsFor(3, 12, 8)).toBe(DELAY_MS);
  });

  test('one Service after the other that comes and goes in a small folder is no such change', () => {
    const { waitsFor, pass } = guarded();
    for (let turn = 0; turn < 40; turn += 1) {
      expect(waitsFor(1, 2, turn)).toBeUndefined();
      pass(10);
    }
  });

  test('says how many, until when, and what to do', () => {
    expect(guarded().textFor(8, 10)).toBe(
      '8 of 10 Services are gone from the folder, or have lost their address or all endpoints: they are kept until 2026-11-27T15:00:30Z (--manifests-removal-delay); put the files back if that was not meant',
    );
  });

  test('waits for nothing with a delay of 0', () => {
    expect(guarded(0).waitsFor(10, 10)).toBeUndefined();
  });
});
