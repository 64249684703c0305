// SPDX-License-Identifier: Apache-2.0
// Schema issues as diagnostics a person can act on, each at its line.
import type { z } from 'zod';
import { isRecord, shown } from '../lib/json.ts';
import type { Diagnostic, FieldPath } from './types.ts';

/** The name of a setting, and where it is set. */
export type Locate = (path: FieldPath) => Pick<Diagnostic, 'location' | 'field'>;

type Issue = z.core.$ZodIssue;

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'a string (quote it)',
  number: 'a number',
  int: 'an integer',
  boolean: 'true or false',
  array: 'a list',
  object: 'a mapping',
  record: 'a mapping',
};

/** One diagnostic per invalid setting, in the schema's order. */
export function diagnosticsOf(
  issues: readonly Issue[],
  value: unknown,
  locate: Locate,
): readonly Diagnostic[] {
  return issues.flatMap((issue) => {
    const path = issue.path.map((step) => (typeof step === 'symbol' ? String(step) : step));
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => ({
        ...locate([...path, key]),
        reason: 'unknown field: check its spelling and its section',
      }));
    }
    const found = valueAt(value, path);
    // Of a list as a whole, the words say enough.
    const isWhole = issue.code !== 'invalid_type' && Array.isArray(found);
    return [
      { ...locate(path), reason: `${wordsOf(issue)}${isWhole ? '' : `, not ${shown(found)}`}` },
    ];
  });
}

function wordsOf(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${TYPE_NAMES[issue.expected] ?? issue.expected}`;
    case 'invalid_value':
      return `must be ${choiceOf(issue.values.map((value) => (value === '' ? '""' : String(value))))}`;
    case 'invalid_format':
      return issue.format === 'url' ? 'must be a URL such as https://10.0.0.1:6443' : issue.message;
    case 'too_small':
      return issue.origin === 'string'
        ? 'must not be empty'
        : `must be at least ${String(issue.minimum)}`;
    case 'too_big':
      return `must be at most ${String(issue.maximum)}`;
    default:
      return issue.message;
  }
}

/** `a, b or c`. */
const choiceOf = (words: readonly string[]): string =>
  [words.slice(0, -1).join(', '), words.at(-1)].filter((part) => part !== '').join(' or ');

export function valueAt(value: unknown, path: FieldPath): unknown {
  let found = value;
  for (const step of path) {
    if (Array.isArray(found) && typeof step === 'number') found = found[step];
    else found = isRecord(found) ? found[String(step)] : undefined;
  }
  return found;
}

/** `['a', 0, 'b']` -> `a[0].b`. */
export function fieldName(path: FieldPath): string {
  return path
    .map((step, index) => {
      if (typeof step === 'number') return `[${step}]`;
      return index === 0 ? step : `.${step}`;
    })
    .join('');
}
