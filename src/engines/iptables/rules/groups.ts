// SPDX-License-Identifier: Apache-2.0
// The words of a rule in groups: one for each option of its own (-s, -d, -i, -p), each match (-m) and the target (-j).
import type { Word } from './words.ts';

/** `-m comment --comment x`, `! -s 10.0.0.0/8`; the last word of its name is an option with one dash. */
export interface Group {
  readonly isNot: boolean;
  readonly option: string;
  /** After the option. */
  readonly words: readonly Word[];
  readonly raw: string;
}

const OPTION = /^-[a-zA-Z]$/;

/** @returns why the words are no rule, if they are none */
export function groupsOf(words: readonly Word[]): readonly Group[] | string {
  const groups: Group[] = [];
  for (let at = 0; at < words.length; ) {
    const isNot = words[at]?.raw === '!';
    const start = isNot ? at + 1 : at;
    const option = words[start]?.raw;
    if (option === undefined) return '! stands before nothing';
    if (!option.startsWith('-')) return `${option} belongs to no option`;
    const end = endOf(words, start);
    if (option !== '-f' && words[start + 1] === undefined) return `${option} has no value`;
    const raw = words
      .slice(at, end)
      .map((word) => word.raw)
      .join(' ');
    groups.push({ isNot, option, words: words.slice(start + 1, end), raw });
    at = end;
  }
  return groups;
}

/** Where the next group begins. The value of an option is none, even if it looks like one: `--comment -j`. */
function endOf(words: readonly Word[], start: number): number {
  let at = words[start]?.raw === '-f' ? start + 1 : start + 2;
  for (; at < words.length; at += 1) {
    const [word, next] = [words[at]?.raw ?? '', words[at + 1]?.raw];
    if (OPTION.test(word) || (word === '!' && (next === undefined || OPTION.test(next)))) break;
    if (word === '--comment') at += 1;
  }
  return Math.min(at, words.length);
}
