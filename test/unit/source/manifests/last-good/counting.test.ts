// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import type { ObjectChange } from '../../../../../src/model/types.ts';
import { createCounting } from '../../../../../src/source/manifests/last-good/counting.ts';

const KEY = 'Service default/web';
const V = [1, 2, 3, 4].map((version) => ({ version }));
const [V1 = {}, V2 = {}, V3 = {}, V4 = {}] = V;
const REMOVED = undefined;

/** What counts after these deliveries and judgements, if `latest` is the last one that was delivered. */
function counted(latest: object, ...steps: readonly ('deliver' | 'good' | 'bad')[]): unknown {
  return countedAfter([V1, V2, V3, V4], latest, ...steps);
}

function countedAfter(
  versions: readonly (object | undefined)[],
  latest: object,
  ...steps: readonly ('deliver' | 'good' | 'bad')[]
): unknown {
  const counting = createCounting();
  const changes = versions.map((object): ObjectChange => {
    const ref = { kind: 'Service', namespace: 'default', name: 'web' } as const;
    return object === undefined ? { type: 'remove', ref } : { type: 'put', ref, object };
  });
  let delivered = 0;
  let judged = 0;
  for (const step of steps) {
    if (step === 'deliver') {
      counting.delivered(KEY, versions[delivered - 1] as never);
      delivered += 1;
      continue;
    }
    const change = changes[judged];
    judged += 1;
    if (change !== undefined) counting.judged([change], new Set(step === 'bad' ? [change] : []));
  }
  const object = counting.of(KEY, latest as never);
  return typeof object === 'string' ? JSON.parse(object) : object;
}

test('a version counts when it is judged, not before', () => {
  expect(counted(V1, 'deliver')).toBeUndefined();
  expect(counted(V1, 'deliver', 'good')).toBe(V1);
  expect(counted(V2, 'deliver', 'good', 'deliver')).toBe(V1);
  expect(counted(V2, 'deliver', 'good', 'deliver', 'good')).toBe(V2);
});

test('the version before a refused one counts until a good one comes', () => {
  const refused = ['deliver', 'good', 'deliver', 'bad'] as const;
  expect(counted(V2, ...refused)).toEqual(V1);
  expect(counted(V3, ...refused, 'deliver')).toEqual(V1);
  expect(counted(V3, ...refused, 'deliver', 'bad')).toEqual(V1);
  expect(counted(V4, ...refused, 'deliver', 'bad', 'deliver', 'good')).toBe(V4);
});

test('several versions may be delivered before the first is judged', () => {
  const three = ['deliver', 'deliver', 'deliver'] as const;
  expect(counted(V3, ...three, 'good')).toBe(V1);
  expect(counted(V3, ...three, 'good', 'good')).toBe(V2);
  expect(counted(V3, ...three, 'good', 'good', 'bad')).toEqual(V2);
  expect(counted(V3, ...three, 'good', 'bad', 'bad')).toEqual(V1);
  expect(counted(V3, ...three, 'good', 'bad', 'good')).toBe(V3);
});

test('what is removed counts no more, and is as new when it comes back', () => {
  const versions = [V1, REMOVED, V3];
  const back = ['deliver', 'good', 'deliver', 'deliver'] as const;
  expect(countedAfter(versions, V3, ...back)).toBe(V1);
  expect(countedAfter(versions, V3, ...back, 'good')).toBeUndefined();
  expect(countedAfter(versions, V3, ...back, 'good', 'good')).toBe(V3);
});

test('an object that is as it was, in a text that was read anew, is the one that counts', () => {
  const again = { ...V1 };
  expect(counted(again, 'deliver', 'good')).toBe(again);
});
