// SPDX-License-Identifier: Apache-2.0
// The words after `-A CHAIN` -> a rule. A group of words that says exactly what a field of a rule can say becomes that
// field; all others go into `other`, as printed and in their order.
import { type Group, groupsOf } from './groups.ts';
import { readMatch } from './parse-match.ts';
import { readTarget } from './parse-target.ts';
import type { Rule } from './types.ts';
import type { Word } from './words.ts';

export type ParsedRule =
  | { readonly ok: true; readonly rule: Rule }
  | { readonly ok: false; readonly reason: string };

/** Writable while it is put together. */
type Draft = { -readonly [Field in keyof Rule]: Rule[Field] };

export function parseRule(words: readonly Word[]): ParsedRule {
  const groups = groupsOf(words);
  if (typeof groups === 'string') return { ok: false, reason: groups };
  const draft: Draft = {};
  const others: string[] = [];
  for (const group of groups) {
    const found = fieldsOf(group, draft);
    if (found === undefined || Object.keys(found).some((field) => Object.hasOwn(draft, field)))
      others.push(group.raw);
    else Object.assign(draft, found);
  }
  if (others.length > 0) draft.other = others.join(' ');
  return { ok: true, rule: draft };
}

/** What the group says, if fields of a rule can say it. */
const fieldsOf = (group: Group, draft: Draft): Partial<Rule> | undefined =>
  group.option === '-j' ? readTarget(group) : readMatch(group, draft);
