// SPDX-License-Identifier: Apache-2.0
// A node name without a Node object is logged once the source is synced, and when that changes.
import { expect, test } from 'vitest';
import { withNodeWarning } from '../../../src/instance/own-node.ts';
import type { ObjectChange } from '../../../src/model/types.ts';
import type { SourceListener } from '../../../src/source/source.ts';
import { nodeObject, put, remove } from '../../support/objects.ts';

const node = (name: string): ObjectChange => put(nodeObject(name));

function follow(nodeName: string) {
  const lines: string[] = [];
  const passed: (readonly ObjectChange[])[] = [];
  const say =
    (level: string) =>
    (fields: object, text: string): void =>
      void lines.push(`${level} ${text}: ${JSON.stringify(fields)}`);
  const listener: SourceListener = {
    onChanges: (changes) => void passed.push(changes),
    onSynced: () => void passed.push([]),
    onProblems: () => undefined,
  };
  const log = { info: say('info'), warn: say('warn') } as never;
  return { lines, passed, ...withNodeWarning(listener, nodeName, log) };
}

test('nothing is logged if the Node exists, and all changes pass', () => {
  const { lines, passed, onChanges, onSynced } = follow('n1');
  onChanges([node('n1')]);
  onSynced();
  expect(lines).toEqual([]);
  expect(passed).toEqual([[node('n1')], []]);
});

test('a name without a Node logs one warning with the existing names', () => {
  const { lines, onChanges, onSynced } = follow('n1');
  onChanges([node('node-b'), node('node-a')]);
  expect(lines).toEqual([]);
  onSynced();
  onChanges([node('node-c')]);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(
    /^warn no Node object with this name.*"n1".*\["node-a","node-b"\].*--hostname-override/,
  );
});

test('a Node that appears later, and one that is deleted', () => {
  const { lines, onChanges, onSynced } = follow('n1');
  onSynced();
  onChanges([node('n1')]);
  onChanges([remove(node('n1'))]);
  expect(lines.map((line) => line.split(':')[0])).toEqual([
    'warn no Node object with this name',
    'info Node object found',
    'warn no Node object with this name',
  ]);
});
