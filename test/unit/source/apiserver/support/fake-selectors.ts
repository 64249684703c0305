// SPDX-License-Identifier: Apache-2.0
// The selectors that a proxy sends: `!label`, `a=b`, `a!=b`.
import { recordOrEmpty } from '../../../../../src/lib/json.ts';
import type { ApiObject } from './objects.ts';

export function isMatch(object: ApiObject, query: URLSearchParams): boolean {
  return (
    parts(query.get('labelSelector')).every((part) => !hasLabel(object, part)) &&
    parts(query.get('fieldSelector')).every((part) => isFieldMatch(object, part))
  );
}

const parts = (text: string | null): string[] => (text ?? '').split(',').filter(Boolean);

function hasLabel(object: ApiObject, part: string): boolean {
  if (!part.startsWith('!')) throw new Error(`selector not known here: ${part}`);
  return Object.hasOwn(recordOrEmpty(object.metadata['labels']), part.slice(1));
}

function isFieldMatch(object: ApiObject, part: string): boolean {
  const [, field = '', sign, value] = /^([^!=]+)(!?=)(.*)$/.exec(part) ?? [];
  const found = field
    .split('.')
    .reduce<unknown>((section, key) => recordOrEmpty(section)[key], object);
  return (found === value) === (sign === '=');
}
