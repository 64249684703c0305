// SPDX-License-Identifier: Apache-2.0
// docs/semantics.md against the tests and the model, both ways.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { STORIES } from '../../conformance/conformance.ts';
import { readStories } from '../../conformance/story.ts';

const top = join(import.meta.dirname, '../../..');
const page = readFileSync(join(top, 'docs/semantics.md'), 'utf8');
const FILES: readonly string[] = STORIES;

/** `clusterip.yaml 1, 3; table.txt` -> the references of one row. Another test compares what engines cannot do. */
const references = page
  .replace(/^## What each engine cannot do$.*?^## /ms, '## ')
  .split('\n')
  .filter(
    (line) => line.startsWith('| ') && !line.startsWith('| Field') && !line.startsWith('| What'),
  )
  .map((line) => ({ line, last: line.split('|').at(-2)?.trim() ?? '' }));

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

describe('docs/semantics.md', () => {
  it('names a test in every row', () => {
    for (const { line, last } of references) expect(last, line).not.toBe('');
    expect(references.length).toBeGreaterThan(40);
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
