// SPDX-License-Identifier: Apache-2.0
// A law of `capture --redact`, for each story: no name and no address of the original is left anywhere, and the plan of the
// redacted objects is the redacted plan.
import { expect, test } from 'vitest';
import type { Capture } from '../../../../src/capture/format.ts';
import { plainOf } from '../../../../src/capture/plain.ts';
import { isWord } from '../../../../src/capture/redact/names.ts';
import { redacted } from '../../../../src/capture/redact/redact.ts';
import { recordOrEmpty } from '../../../../src/lib/json.ts';
import { allStories, canonical, captureOf, digestWith, planFrom } from '../captures.ts';

const stories = allStories();
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(plainOf(value)));

/** Every name that the story gives to anything. */
function namesIn({ objects = [] }: Capture): ReadonlySet<string> {
  const found = new Set<string>();
  const walk = (value: unknown, key: string): void => {
    const isName = ['name', 'namespace', 'nodeName', 'zone', 'hostname'].includes(key);
    if (typeof value === 'string' && isName && !isWord(value)) found.add(value);
    for (const [inner, one] of Object.entries(recordOrEmpty(value))) walk(one, inner);
    if (Array.isArray(value)) for (const one of value) walk(one, key);
  };
  for (const { object } of objects) walk(object, '');
  return found;
}

const ADDRESS = /(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])|[0-9a-f]*(?::[0-9a-f]*){3,}/g;
const SPECIAL = /^(?:0|127|169\.254|2[2-5]\d)\.|^::|^fe80:|^ff/;
const addressesIn = (text: string): ReadonlySet<string> =>
  new Set((text.match(ADDRESS) ?? []).filter((one) => !SPECIAL.test(one)));

test.each(stories.map((story) => [story.name, story] as const))('%s', (_, story) => {
  const capture = captureOf(story);
  const result = redacted(capture, digestWith('a'));
  expect(result.unread).toEqual([]);
  // The same plan, by other names.
  const replanned = plain(planFrom(result.settings.plan, result.objects));
  expect(canonical(replanned)).toEqual(canonical(result.plan));
  const [before, after] = [capture.plan, result.plan].map(recordOrEmpty);
  expect(shapeOf(after)).toEqual(shapeOf(before));
  // Nothing is left.
  const text = JSON.stringify(result);
  const words = new Set(text.match(/[A-Za-z0-9][A-Za-z0-9._-]*/g));
  expect([...namesIn(capture)].filter((name) => words.has(name))).toEqual([]);
  const other = JSON.stringify(redacted(capture, digestWith('b')));
  const originals = addressesIn(JSON.stringify({ ...capture, version: '' }));
  const [found, again] = [addressesIn(text), addressesIn(other)];
  // One address may stand for another one by chance, but not with each secret.
  expect([...originals].filter((one) => found.has(one) && again.has(one))).toEqual([]);
});

/** How many there are of everything, and what is neither name nor address. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(shapeOf).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  }
  if (typeof value === 'string') return /^[A-Z]/.test(value) ? value : 'text';
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !['labels', 'reason', 'instead'].includes(key))
      .map(([key, one]) => [key, shapeOf(one)]),
  );
}
