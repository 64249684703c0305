// SPDX-License-Identifier: Apache-2.0
// What Markdown gives no error for: a link to a heading that does not exist, a table that an empty line cuts in two.
import { posix } from 'node:path';
import { expect, test } from 'vitest';
import { readTree, type SourceFile } from './source-file.ts';

const documents = readTree(new URL('../../..', import.meta.url).pathname).filter(({ path }) =>
  path.endsWith('.md'),
);

/** As GitHub names a heading: `## What a node needs` is `#what-a-node-needs`. */
const anchorOf = (heading: string): string =>
  heading
    .replace(/^#+ /, '')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');

const anchors = new Map(
  documents.map(({ path, lines }) => [
    path,
    lines.filter((line) => /^#+ /.test(line)).map(anchorOf),
  ]),
);

test('links with an anchor lead to a heading', () => {
  const broken = documents.flatMap(({ path, lines }) =>
    lines.flatMap((line, index) =>
      [...line.matchAll(/\]\(([^):#]*)#([^)]+)\)/g)].flatMap(([, file = '', anchor = '']) => {
        const target = file === '' ? path : posix.join(posix.dirname(path), file);
        const isThere = anchors.get(target)?.includes(anchor) ?? true;
        return isThere ? [] : [`${path}:${index + 1}: ${file}#${anchor}`];
      }),
    ),
  );
  expect(broken).toEqual([]);
});

/** The first lines of tables that have no line of dashes below them. */
const headless = ({ path, lines }: SourceFile): string[] =>
  lines.flatMap((line, index) => {
    const isFirst = line.startsWith('| ') && lines[index - 1] === '';
    const hasHead = /^\|[-:| ]+\|$/.test(lines[index + 1] ?? '');
    return isFirst && !hasHead ? [`${path}:${index + 1}: ${line.slice(0, 60)}`] : [];
  });

test('every table has a head', () => {
  expect(documents.flatMap(headless)).toEqual([]);
});
