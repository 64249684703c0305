// SPDX-License-Identifier: Apache-2.0
// A decision fits on a page, says when it was made and what was rejected, and the table of decisions names it.
import { describe, expect, test } from 'vitest';
import { readTree, type SourceFile } from '../source-file.ts';

const tree = readTree(new URL('../../../..', import.meta.url).pathname);
const folder = 'docs/adr/';
const pages = tree.filter(({ path }) => /^docs\/adr\/\d{4}-[\w-]+\.md$/.test(path));
const table = tree.find(({ path }) => path === `${folder}README.md`)?.lines ?? [];

const PAGE_WORDS = 500;
/** The connection table. */
const LONGER: Readonly<Record<string, number>> = { '0045': 900 };

const numberOf = ({ path }: SourceFile): string => path.slice(folder.length, folder.length + 4);
const wordsOf = ({ lines }: SourceFile): number =>
  lines
    .join(' ')
    .split(/\s+/)
    .filter((word) => /[\p{L}\p{N}]/u.test(word)).length;

describe('decisions', () => {
  test.each(pages.map((page) => [page.path, page] as const))('%s fits on its pages', (_, page) => {
    const limit = LONGER[numberOf(page)] ?? PAGE_WORDS;
    expect(wordsOf(page)).toBeLessThanOrEqual(limit);
  });

  test.each(pages.map((page) => [page.path, page] as const))(
    '%s has number, date and its parts',
    (_, page) => {
      expect(page.lines[0]).toMatch(new RegExp(`^# ${Number(numberOf(page))}\\. \\S`));
      expect(page.lines[2]).toMatch(/^Accepted \d{4}-\d\d-\d\d\b/);
      const text = page.lines.join('\n');
      for (const part of ['Context', 'Decision', 'Consequences'])
        expect(text).toContain(`**${part}`);
    },
  );

  test('are in the table under their titles', () => {
    const rows = pages.map((page) => {
      const title = page.lines[0]?.replace(/^# \d+\. /, '') ?? '';
      return `| [${Number(numberOf(page))}](${page.path.slice(folder.length)}) | ${title} |`;
    });
    expect(rows.length).toBeGreaterThan(25);
    expect(rows.filter((row) => !table.some((line) => line.startsWith(row)))).toEqual([]);
  });
});
