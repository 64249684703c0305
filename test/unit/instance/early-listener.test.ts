// SPDX-License-Identifier: Apache-2.0
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createEarlyListener } from '../../../src/instance/early-listener.ts';
import type { ObjectChange } from '../../../src/model/types.ts';
import type { SourceListener } from '../../../src/source/source.ts';

const change = (name: string): ObjectChange => ({
  type: 'remove',
  ref: { kind: 'Service', namespace: 'default', name },
});

function recorder(): { readonly calls: string[]; readonly listener: SourceListener } {
  const calls: string[] = [];
  return {
    calls,
    listener: {
      onChanges: (changes) => calls.push(changes.map(({ ref }) => ref.name).join()),
      onSynced: () => calls.push('synced'),
      onProblems: (problems) => calls.push(`${problems.length} problems`),
      onRequest: () => calls.push('request'),
    },
  };
}

test('early deliveries are passed on in order, before later ones', async () => {
  const { listener, passTo } = createEarlyListener();
  const { calls, listener: target } = recorder();
  listener.onChanges([change('a'), change('b')]);
  listener.onChanges([change('c')]);
  listener.onProblems([]);
  const passed = passTo(target);
  expect(calls).toEqual(['a,b']);
  listener.onSynced();
  await passed;
  expect(calls).toEqual(['a,b', 'c', '0 problems', 'synced']);
  listener.onChanges([change('d')]);
  expect(calls.at(-1)).toBe('d');
});

test('one call per turn of the event loop, so that a long list does not stall it', async () => {
  const { listener, passTo } = createEarlyListener();
  const { calls, listener: target } = recorder();
  for (const name of ['a', 'b', 'c']) listener.onChanges([change(name)]);
  const passed = passTo(target);
  let turns = 0;
  while (calls.length < 3) {
    await nextTurn();
    turns += 1;
    expect(calls.length).toBeLessThanOrEqual(turns + 1);
  }
  await passed;
});
