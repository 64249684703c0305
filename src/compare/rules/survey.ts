// SPDX-License-Identifier: Apache-2.0
// What all rules together say, found in one pass: rules are not kept.
import { isOneAddress, type Range, textOf } from './ranges.ts';
import type { Elements, KeyPart, Rule, Survey, Test } from './types.ts';

export function surveyOf(
  chains: Iterable<readonly Rule[]>,
  sets: ReadonlyMap<string, Elements>,
): Survey {
  const found = {
    addresses: new Set<string>(),
    ranges: new Map<string, Range>(),
    seconds: new Map<string, number>(),
    unread: [...sets.values()].flatMap(({ unread }) => unread),
  };
  const addRange = (range: Range): void => {
    if (isOneAddress(range)) found.addresses.add(textOf(range.from));
    else found.ranges.set(`${range.from} ${range.to}`, range);
  };
  const seen = new Set<string>();
  const addKey = (key: readonly KeyPart[], name: string, isForeign: boolean): void => {
    const at = key.indexOf('destination');
    const set = sets.get(name);
    // Pairs of a proxy's set are backends that are their own clients.
    if (at < 0 || set === undefined || (key.includes('source') && !isForeign)) return;
    if (seen.has(`${at} ${name}`)) return;
    seen.add(`${at} ${name}`);
    for (const text of set.exact.keys()) found.addresses.add(text.split(' ')[at] ?? '');
    for (const range of set.ranges) addRange(range);
  };
  const addTest = (test: Test, isForeign: boolean): void => {
    if (test.kind === 'address' && test.side === 'destination') test.ranges.forEach(addRange);
    else if (test.kind === 'member') addKey(test.key, test.set, isForeign);
    else if (test.kind === 'remembered') found.seconds.set(test.list, test.seconds);
  };
  for (const rules of chains) {
    for (const rule of rules) {
      const { tests, actions, isForeign, text } = rule;
      for (const test of tests) addTest(test, isForeign);
      for (const action of actions)
        if (action.kind === 'look-up') addKey(action.key, action.map, isForeign);
      if (isUnread(rule)) found.unread.push({ text, isForeign });
    }
  }
  return { ...found, ranges: [...found.ranges.values()] };
}

const isUnread = ({ tests, actions }: Rule): boolean =>
  tests.some(({ kind }) => kind === 'unread') || actions.some(({ kind }) => kind === 'unread');
