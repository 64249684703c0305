// SPDX-License-Identifier: Apache-2.0
// A change that empties most Services of a folder waits, in whatever way it does.
import { describe, expect, test } from 'vitest';
import { changesOf, emptyStore, putText } from '../../../../src/source/manifests/manifest-store.ts';
import { createRemovalGuard } from '../../../../src/source/manifests/removal-guard.ts';
import { changeTexts, service, slice } from './folder.ts';

const DELAY_MS = 30_000;

/** `count` Services with an address and an endpoint each. */
const objects = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => [
    `${service(`s${index}`)}  clusterIP: 10.96.0.${index + 1}\n`,
    slice(`s${index}`),
  ]).flat();

/** The last objects of ten Services as `spoil` makes them. */
function started(texts: readonly string[]) {
  let ms = 0;
  const store = emptyStore();
  const clock = { nowMs: () => ms, monotonicMs: () => ms };
  const guard = createRemovalGuard('/m', DELAY_MS, clock);
  const put = (next: readonly string[]) => {
    putText(store, 'all.yaml', next.join('---\n'));
    const { changes, problems, leftMs } = changesOf(store, guard);
    return {
      texts: changeTexts(changes),
      reasons: problems.map(({ reason }) => reason),
      leftMs,
    };
  };
  put(texts);
  return {
    put,
    pass: (by: number) => {
      ms += by;
    },
  };
}

const WAYS: readonly [string, RegExp, string][] = [
  ['another label in every EndpointSlice', /service-name: s/g, 'service-name: zs'],
  ['no endpoints', /endpoints: .*/g, 'endpoints: []'],
  ['endpoints without addresses', /addresses: .*\]/g, 'addresses: []}]'],
  ['headless Services', /clusterIP: .*/g, 'clusterIP: None'],
  ['Services of type ExternalName', /^ {2}clusterIP/gm, '  type: ExternalName\n  clusterIP'],
  [
    'Services of another proxy',
    /^( {2}name: s\d)$/gm,
    '$1\n  labels: { service.kubernetes.io/service-proxy-name: x }',
  ],
];

describe.each(WAYS)('%s', (_, what, by) => {
  const good = objects(10);
  const spoilt = (from: number) =>
    good.map((text, index) => (index < from * 2 ? text : text.replaceAll(what, by)));

  test('most of ten Services: waits, all else follows, and then takes effect', () => {
    const { put, pass } = started(good);
    const bad = [...spoilt(0), service('other')];
    const { texts, reasons, leftMs } = put(bad);
    expect(texts).toEqual(['put Service default/other']);
    expect(reasons).toEqual([
      expect.stringMatching(/^10 of 10 Services .* have lost their address or all endpoints/),
    ]);
    expect(leftMs).toBe(DELAY_MS);
    pass(DELAY_MS);
    expect(put(bad)).toMatchObject({ texts: { length: 10 }, reasons: [] });
    expect(put(bad)).toMatchObject({ texts: [], reasons: [] });
  });

  test('what comes back meanwhile was never gone', () => {
    const { put } = started(good);
    put(spoilt(0));
    expect(put(good)).toMatchObject({ texts: [], reasons: [] });
  });

  test('half of ten Services do not wait', () => {
    const { put } = started(good);
    expect(put(spoilt(5))).toMatchObject({ texts: { length: 5 }, reasons: [] });
  });

  test('one after the other is the same change', () => {
    const { put, pass } = started(good);
    for (const left of [9, 8, 7, 6, 5]) {
      expect(put(spoilt(left))).toMatchObject({ texts: { length: 1 }, reasons: [] });
      pass(10);
    }
    expect(put(spoilt(4))).toMatchObject({ texts: [], leftMs: DELAY_MS });
  });
});

test('only what is lost waits: a port of a Service that would lose its endpoints follows', () => {
  const { put } = started(objects(10));
  const next = objects(10).map((text) =>
    text.replace(/port: 80$/m, 'port: 81').replace(/endpoints: .*/, 'endpoints: []'),
  );
  expect(new Set(put(next).texts)).toEqual(
    new Set(Array.from({ length: 10 }, (_, index) => `put Service default/s${index}`)),
  );
});
