// SPDX-License-Identifier: Apache-2.0
// The words of a line as iptables prints it: what has other characters than letters, digits, - and _ is in double quotes,
// with a backslash before quotes and backslashes (xtables_save_string).

export interface Word {
  /** Without quotes and escapes. */
  readonly text: string;
  /** As printed. */
  readonly raw: string;
}

export type Words =
  | { readonly ok: true; readonly words: readonly Word[] }
  | { readonly ok: false; readonly reason: string };

const WORD = /[ \t]*(?:"([^"\\]*(?:\\.[^"\\]*)*)"|([^ \t"][^ \t]*))(?=[ \t]|$)/suy;

const unescaped = (text: string): string => text.replace(/\\(.)/gsu, '$1');

/** `-A X -m comment --comment "a \"b\""` -> -A, X, -m, comment, --comment, a "b" */
export function wordsOf(line: string): Words {
  const words: Word[] = [];
  const text = line.trimEnd();
  const hasTabs = text.includes('\t');
  for (let at = 0; at < text.length; ) {
    const plainEnd = hasTabs ? -1 : endOfPlain(text, at);
    if (plainEnd > at) {
      const word = text.slice(at, plainEnd);
      words.push({ text: word, raw: word });
      at = plainEnd + 1;
      continue;
    }
    WORD.lastIndex = at;
    const found = WORD.exec(text);
    if (found === null) return { ok: false, reason: unreadable(text.slice(at).trimStart()) };
    const [whole, quoted, plain] = found;
    words.push({ text: plain ?? unescaped(quoted ?? ''), raw: whole.trimStart() });
    at = WORD.lastIndex;
  }
  return { ok: true, words };
}

/** Most words have no quotes and no blank before them: 400,000 rules have four million. @returns -1 if it is another one */
function endOfPlain(text: string, at: number): number {
  if (text[at] === '"' || text[at] === ' ') return -1;
  const end = text.indexOf(' ', at);
  return end < 0 ? text.length : end;
}

const unreadable = (rest: string): string =>
  /^"[^"\\]*(?:\\.[^"\\]*)*\\?$/su.test(rest)
    ? `a quote is not closed: ${shortened(rest)}`
    : `after a closing quote there must be a blank: ${shortened(rest)}`;

const MAX_QUOTE_LENGTH = 60;
const shortened = (text: string): string =>
  text.length > MAX_QUOTE_LENGTH ? `${text.slice(0, MAX_QUOTE_LENGTH)}...` : text;
