// SPDX-License-Identifier: Apache-2.0
// managedFields are cut out of the text of an object, and nothing else is: never what only looks like them.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createIntern } from '../../../../../src/source/apiserver/decode/intern.ts';
import { outside, walkNested } from '../../../../../src/source/apiserver/decode/nesting.ts';
import {
  createDecoder,
  objectText,
} from '../../../../../src/source/apiserver/decode/watch-events.ts';
import { SERVICES } from '../../../../../src/source/apiserver/kinds.ts';
import { service } from '../support/objects.ts';

const textOf = (text: string): string => objectText(Buffer.from(text));

/** As kube-apiserver 1.36 writes them. */
const FIELDS = [
  {
    manager: 'kubectl-client-side-apply',
    operation: 'Update',
    apiVersion: 'v1',
    time: '2026-01-31T08:00:00Z',
    fieldsType: 'FieldsV1',
    fieldsV1: {
      'f:metadata': {
        'f:annotations': { '.': {}, 'f:kubectl.kubernetes.io/last-applied': {} },
      },
      'f:spec': {
        'f:ports': { '.': {}, 'k:{"port":80,"protocol":"TCP"}': { '.': {} } },
      },
    },
  },
];

describe('what is cut', () => {
  test('managedFields as the server writes them, brackets in their keys and all', () => {
    const rest = { name: 'a', labels: { x: 'é€' } };
    const made = { metadata: { ...rest, managedFields: FIELDS }, spec: { type: 'ClusterIP' } };
    const text = textOf(JSON.stringify(made));
    expect(text).toBe(JSON.stringify({ metadata: rest, spec: { type: 'ClusterIP' } }));
  });

  test.each([
    ['in a text', { metadata: { annotations: { a: ',"managedFields":[{"x":"]' } } }],
    ['as a whole text', { a: ['x,"managedFields":[', ']'] }],
    ['in a key', { a: { ',"managedFields":[': 1, b: ']' } }],
    ['not a list', { metadata: { name: 'a', managedFields: { a: [1] } } }],
    ['first', { metadata: { managedFields: [1], name: 'a' } }],
  ])('not what looks like them %s', (_where, made) => {
    const text = JSON.stringify(made);
    expect(textOf(text)).toBe(text);
  });

  test('not what has no end', () => {
    for (const text of ['{"a":1,"managedFields":[', '{"a":1,"managedFields":["]}', '']) {
      expect(textOf(text)).toBe(text);
    }
  });
});

/** Without any list of that name, wherever it is: nothing here reads one. */
function without(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(without);
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(
    ([key, inner]) => key !== 'managedFields' || !Array.isArray(inner),
  );
  return Object.fromEntries(kept.map(([key, inner]) => [key, without(inner)]));
}

const anyText = fc.string({
  unit: fc.constantFrom(
    '"',
    '\\',
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    'é',
    'managedFields',
    ',"managedFields":[',
  ),
  maxLength: 6,
});
const { value: anyValue } = fc.letrec((tie) => ({
  value: fc.oneof({ depthSize: 'small' }, anyText, fc.integer(), tie('list'), tie('record')),
  list: fc.array(tie('value'), { maxLength: 4 }),
  record: fc.dictionary(fc.oneof(anyText, fc.constant('managedFields')), tie('value'), {
    maxKeys: 5,
  }),
}));

test('whatever the JSON, it says the same without them', () => {
  fc.assert(
    fc.property(anyValue, fc.nat(2), (value, indent) => {
      const text = JSON.stringify({ name: 'a', value, last: 1 }, null, indent);
      expect(without(JSON.parse(textOf(text)))).toEqual(without(JSON.parse(text)));
    }),
    { numRuns: 500 },
  );
});

test('an object is decoded as if it had none, as an item and as an event', () => {
  const decoder = createDecoder(SERVICES, createIntern());
  const made = service('web');
  const full = { ...made, metadata: { ...made.metadata, managedFields: FIELDS } };
  const { managedFields: _gone, ...metadata } = made.metadata;
  const bytes = (value: unknown) => Buffer.from(JSON.stringify(value));
  const expected = decoder.item(bytes({ ...made, metadata }));
  expect(decoder.item(bytes(full))).toEqual(expected);
  expect(decoder.event(bytes({ type: 'ADDED', object: full }))).toEqual({
    type: 'ADDED',
    observed: expected,
  });
});

test('the end of an object is found, however its bytes are cut', () => {
  fc.assert(
    fc.property(
      fc.array(anyValue, { maxLength: 3 }),
      fc.array(fc.nat(), { maxLength: 8 }),
      (value, cuts) => {
        const bytes = Buffer.from(`${JSON.stringify(value)},{"next":"]"}]`);
        const offsets = [...new Set(cuts.map((cut) => cut % bytes.length))].sort((a, b) => a - b);
        const nesting = outside();
        let walked = 0;
        for (const end of [...offsets, bytes.length]) {
          if (walked > 0 && nesting.depth === 0) break;
          walked += walkNested(bytes.subarray(walked, end), 0, nesting);
        }
        expect(bytes.subarray(0, walked).toString()).toBe(JSON.stringify(value));
      },
    ),
  );
});
