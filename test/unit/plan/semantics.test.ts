// SPDX-License-Identifier: Apache-2.0
// docs/semantics.md against the tests and the model, both ways. test/semantics.md names the tests of each of its rows.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROWS as SETTING_ROWS } from '../../../src/config/settings/settings.ts';
import { ANNOTATION_ROWS } from '../../../src/model/annotations.ts';
import { STORIES } from '../../conformance/conformance.ts';
import { readStories } from '../../conformance/story.ts';

const top = join(import.meta.dirname, '../../..');
const page = readFileSync(join(top, 'docs/semantics.md'), 'utf8');
const tests = readFileSync(join(top, 'test/semantics.md'), 'utf8');
const FILES: readonly string[] = STORIES;

/** Tables that other tests compare with the code, and one whose rows are values of a row above it. */
const OTHERS: readonly string[] = [
  'Where fairlead differs from kube-proxy',
  'What each engine cannot do',
  'Algorithms',
];

interface Row {
  readonly heading: string;
  readonly first: string;
  readonly last: string;
}

/** Rows of the tables of a page, without their heads. */
function rowsOf(text: string): readonly Row[] {
  const lines = text.split('\n');
  return lines.flatMap((line, at) => {
    if (!line.startsWith('| ') || lines[at + 1]?.startsWith('|-') === true) return [];
    const heading = lines.slice(0, at).findLast((each) => /^##/.test(each)) ?? '';
    const cells = line.split('|').map((cell) => cell.trim());
    const [first = '', last = ''] = [cells[1], cells.at(-2)];
    return [{ heading: heading.replace(/^#+ /, ''), first, last }];
  });
}

const references = rowsOf(tests);
const keysOf = (rows: readonly Row[]): readonly string[] =>
  rows.map(({ heading, first }) => `${heading}: ${first}`);

function storiesNamed(): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { last } of references) {
    for (const part of last.split('; ')) {
      const [file = '', ...cases] = part.split(/,? /);
      if (FILES.includes(file)) for (const one of cases) found.add(`${file} ${one}`);
    }
  }
  return found;
}

const storiesTold = new Set(
  FILES.flatMap((file) => readStories(file).map((story) => `${file} ${story.case}`)),
);

describe('test/semantics.md', () => {
  it('names a test of every row of docs/semantics.md', () => {
    const isOfText = ({ first }: Row): boolean => first.startsWith('(');
    const rows = rowsOf(page).filter(({ heading }) => !OTHERS.includes(heading));
    expect(keysOf(references.filter((row) => !isOfText(row)))).toEqual(keysOf(rows));
    for (const { last, first } of references) expect(last, first).not.toBe('');
    expect(rows.length).toBeGreaterThan(100);
  });

  it('names only stories and files that exist', () => {
    for (const story of storiesNamed()) expect(storiesTold, story).toContain(story);
    for (const { last } of references) {
      for (const part of last.split('; ')) {
        const [file = ''] = part.split(' ');
        const path = file.startsWith('test/') ? file : `test/conformance/${file}`;
        expect(existsSync(join(top, path)), path).toBe(true);
      }
    }
  });

  it('names every story', () => {
    for (const story of storiesTold) expect(storiesNamed(), story).toContain(story);
  });
});

/** From the heading above a row to the next of its level. */
const sectionWith = (row: string): string =>
  page.split(/^(?=## )/m).find((section) => section.includes(row)) ?? '';

describe('docs/semantics.md', () => {
  it.each(ANNOTATION_ROWS)('has a row of $name, its values, and the flag of its default', (row) => {
    const { name, of, values = [] } = row;
    const start = page
      .split('\n')
      .find((line) => line.startsWith('| ') && line.includes(`\`${name}\``));
    expect(start).toContain(of === 'Service' ? name : 'of the EndpointSlice');
    const section = sectionWith(start ?? '');
    const flags = SETTING_ROWS.filter(
      ([field, setting]) => setting.annotation === name && field !== 'externalAlgorithm',
    );
    const words = [...values, ...flags.map(([, { flag }]) => `--${flag}`)];
    expect(words.filter((word) => !section.includes(`\`${word}`))).toEqual([]);
  });

  it('and the default of a choice is its first value, if nobody chooses', () => {
    const chosen = SETTING_ROWS.flatMap(([field, { annotation, default: usual }]) => {
      const row = ANNOTATION_ROWS.find(({ name }) => name === annotation);
      return row === undefined || usual === undefined ? [] : [[field, usual, row.values?.[0]]];
    });
    expect(chosen.length).toBeGreaterThan(2);
    for (const [field, usual, first] of chosen) expect([field, usual]).toEqual([field, first]);
  });

  it('names every field that the model reads', () => {
    const structure = new Set(['metadata', 'spec', 'status', 'labels', 'type', 'address', 'name']);
    const files = readdirSync(join(top, 'src/model'), { recursive: true, encoding: 'utf8' });
    for (const file of files.filter((name) => name.endsWith('.ts'))) {
      const source = readFileSync(join(top, 'src/model', file), 'utf8');
      for (const [, field = ''] of source.matchAll(/\['([A-Za-z]+)'\]/g)) {
        if (!structure.has(field)) expect(page, `${file} reads ${field}`).toContain(field);
      }
    }
  });
});
