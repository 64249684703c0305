// SPDX-License-Identifier: Apache-2.0
// Sentences that a reader has to read twice, in the pages for users. A page may have as many as it had when it was last
// repaired, so that the number can only go down.
import type { SourceFile } from '../source-file.ts';

const MAX_WORDS = 25;

const USER_PAGES =
  /^(README|CHANGELOG|SECURITY|docs\/(install\/)?[\w-]+|deploy\/README|examples\/README)\.md$/;

export const isUserPage = ({ path }: Pick<SourceFile, 'path'>): boolean => USER_PAGES.test(path);

export interface Sentence {
  /** 1-based, of the paragraph, list item or table row that it is in. */
  readonly line: number;
  readonly words: number;
  readonly text: string;
}

/** Text that no sentence crosses: a paragraph, a list item, a cell of a table. */
interface Block {
  readonly line: number;
  readonly text: string;
}

/** Of a page of Markdown, without its code and its headings. */
export function longSentences(lines: readonly string[]): readonly Sentence[] {
  return blocksOf(lines).flatMap(({ line, text }) =>
    plain(text)
      .split(/(?<=[.!?][)"*]*)\s+/)
      .map((sentence) => ({ line, words: wordsOf(sentence), text: sentence }))
      .filter(({ words }) => words > MAX_WORDS),
  );
}

function blocksOf(lines: readonly string[]): readonly Block[] {
  const blocks: Block[] = [];
  let isCode = false;
  let open: { line: number; text: string } | undefined;
  for (const [index, line] of lines.entries()) {
    const isFence = /^\s*```/.test(line);
    if (isFence) isCode = !isCode;
    const isRow = line.startsWith('|');
    if (isFence || isCode || isRow || /^\s*$|^#/.test(line)) open = undefined;
    if (isFence || isCode || /^\s*$|^#/.test(line)) continue;
    if (isRow) {
      blocks.push(...line.split('|').map((text) => ({ line: index + 1, text })));
      continue;
    }
    const item = /^\s*(?:[-*]|\d+\.) +(.*)$/.exec(line);
    if (open === undefined || item !== null) {
      open = { line: index + 1, text: item?.[1] ?? line };
      blocks.push(open);
    } else open.text += ` ${line}`;
  }
  return blocks;
}

/** Code, a list of code, and the text of a link count as what they say; pictures and addresses of links are not read. */
const plain = (text: string): string =>
  text
    .replace(/`[^`]*`/g, 'code')
    .replace(/(code,\s+)+code/g, 'code')
    .replace(/!\[[^\]]*\]\([^)]*\)/g, '')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1');

const wordsOf = (sentence: string): number =>
  sentence.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
