// SPDX-License-Identifier: Apache-2.0
// Pages for users have no sentence that must be read twice.
import { describe, expect, test } from 'vitest';
import { readTree } from '../source-file.ts';
import { isUserPage, longSentences } from './sentences.ts';

const pages = readTree(new URL('../../../..', import.meta.url).pathname).filter(isUserPage);

/** Pages that still have long sentences, and how many. Numbers here may only become smaller. */
const ALLOWED: Readonly<Record<string, number>> = {};

describe('pages for users', () => {
  test.each(pages.map(({ path, lines }) => [path, lines] as const))(
    '%s has no sentence of more than 25 words',
    (path, lines) => {
      const allowed = ALLOWED[path] ?? 0;
      const found = longSentences(lines);
      const told = found.map(({ line, words, text }) => `${path}:${line}: ${words} words: ${text}`);
      if (found.length > allowed) expect(told).toEqual([]);
      expect(found.length, `lower the number of ${path}`).toBe(allowed);
    },
  );

  test('are found', () => {
    const paths = pages.map(({ path }) => path);
    expect(paths).toEqual(
      expect.arrayContaining(['README.md', 'docs/semantics.md', 'docs/install/kubeadm.md']),
    );
    expect(paths).not.toContain('ARCHITECTURE.md');
  });
});

describe('long sentences', () => {
  const words = (count: number): string => Array(count).fill('word').join(' ');
  const found = (...lines: readonly string[]) =>
    longSentences(lines).map(({ line, words: count }) => [line, count]);

  test('are found in paragraphs over several lines, list items and cells', () => {
    expect(found('', `${words(20)}`, `${words(6)}.`)).toEqual([[2, 26]]);
    expect(found(`- ${words(26)}.`)).toEqual([[1, 26]]);
    expect(found(`| ${words(20)} | ${words(26)} |`)).toEqual([[1, 26]]);
  });

  test('end at full stops, items, cells, empty lines and headings', () => {
    expect(found(`${words(25)}. ${words(25)}`)).toEqual([]);
    expect(found(`- ${words(20)}`, `- ${words(20)}`)).toEqual([]);
    expect(found(words(20), '', words(20))).toEqual([]);
    expect(found(words(20), '## Heading', words(20))).toEqual([]);
    expect(found(`| ${words(20)} | ${words(20)} |`)).toEqual([]);
  });

  test('count code and links as what a reader sees, and leave code blocks out', () => {
    expect(found(`${words(24)} \`${words(5)}\``)).toEqual([]);
    expect(found(`${words(24)} \`a\`, \`b\`, \`c\``)).toEqual([]);
    expect(found(`${words(24)} [one](https://example.com/a b c)`)).toEqual([]);
    expect(found(`![${words(40)}](picture.svg)`)).toEqual([]);
    expect(found('```', words(40), '```')).toEqual([]);
    expect(found('```', 'code', '```', words(26))).toEqual([[4, 26]]);
  });
});
