// SPDX-License-Identifier: Apache-2.0
// One word for one thing: the glossary's. A room that is clean stays clean.
import { describe, expect, test } from 'vitest';
import { readTree } from './source-file.ts';
import { CLEAN_ROOMS, REPLACED, replacedWords } from './words.ts';

const tree = readTree(new URL('../../..', import.meta.url).pathname);

describe('replaced words', () => {
  test.each(CLEAN_ROOMS)('%s has none', (room) => {
    const files = tree.filter(({ path }) => path.startsWith(room));
    expect(files.length).toBeGreaterThan(0);
    expect(replacedWords(files)).toEqual([]);
  });

  test('are found, with what to say instead', () => {
    const line = 'keeps the kernel in step; the own Node was taken over';
    expect(replacedWords([{ path: 'a.ts', lines: [line] } as never])).toEqual([
      'a.ts:1: "in step", say: in sync',
      'a.ts:1: "taken over", say: adopted',
      'a.ts:1: "the own Node", say: this node\'s Node, local',
    ]);
  });

  test('are no words of the glossary', () => {
    const page = tree.find(({ path }) => path === 'CONTRIBUTING.md');
    const words = (page?.lines ?? []).flatMap((line) => /^\| ([^|]+) \| /.exec(line)?.[1] ?? []);
    for (const { word } of REPLACED) expect(words.filter((each) => word.test(each))).toEqual([]);
  });
});
