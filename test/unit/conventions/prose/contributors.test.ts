// SPDX-License-Identifier: Apache-2.0
// Pages for contributors have no sentence that must be read twice, like pages for users.
import { expect, test } from 'vitest';
import { readTree } from '../source-file.ts';
import { longSentences } from './sentences.ts';

const PAGES =
  /^(ARCHITECTURE|CONTRIBUTING|docs\/adr\/[\w-]+|bpf\/[\w/]+\/README|test\/README)\.md$/;
const pages = readTree(new URL('../../../..', import.meta.url).pathname).filter(({ path }) =>
  PAGES.test(path),
);

test.each(pages.map((page) => [page.path, page.lines] as const))(
  '%s has no sentence of more than 25 words',
  (path, lines) => {
    const told = longSentences(lines).map(
      ({ line, words, text }) => `${path}:${line}: ${words} words: ${text}`,
    );
    expect(told).toEqual([]);
  },
);

test('pages for contributors are found', () => {
  expect(pages.map(({ path }) => path)).toEqual(
    expect.arrayContaining(['ARCHITECTURE.md', 'docs/adr/README.md', 'bpf/packet/conn/README.md']),
  );
});
