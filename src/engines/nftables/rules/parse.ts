// SPDX-License-Identifier: Apache-2.0
// What `nft -y list table` prints -> the table as it is held. Lines are compared as they are, so rules of others, and those
// that somebody has edited, need not be understood.
import type { HeldTable } from './types.ts';

/** Nothing: also of a table that does not exist. */
export const emptyTable = (): HeldTable => ({
  chains: new Map(),
  sets: new Map(),
  elements: new Map(),
  foreign: new Set(),
});

/** Somebody has switched all chains of the table off. */
const DORMANT = '\tflags dormant';

const isSetKind = (kind: string): kind is 'set' | 'map' => kind === 'set' || kind === 'map';

/** `chain services {` up to its brace: a chain, a set, a map or another object of a table. */
export interface Block {
  readonly kind: string;
  readonly name: string;
  /** Without the first line and the last. */
  readonly body: readonly string[];
}

/** Of one table. */
export function* blocksOf(lines: readonly string[]): Iterable<Block> {
  let at = 0;
  while (at < lines.length) {
    const [, kind = '', name = ''] = /^\t(\S+) (\S.*) \{$/.exec(lines[at] ?? '') ?? [];
    at += 1;
    if (kind === '') continue;
    const from = at;
    while (at < lines.length && lines[at] !== '\t}') at += 1;
    yield { kind, name, body: lines.slice(from, at) };
  }
}

export function parseTable(printed: string): HeldTable {
  const table = emptyTable();
  const lines = printed.split('\n');
  if (lines.includes(DORMANT)) table.foreign.add(DORMANT.trim());
  for (const { kind, name, body } of blocksOf(lines)) {
    if (kind === 'chain') readChain(table, name, body);
    else if (isSetKind(kind)) readSet(table, kind, name, body);
    else table.foreign.add(`${kind} ${name}`);
  }
  return table;
}

function readChain({ chains }: HeldTable, name: string, body: readonly string[]): void {
  const lines = body.map((line) => line.trim()).filter((line) => line !== '');
  const [first = ''] = lines;
  const hook = /^type \S+ hook /.test(first) ? first : '';
  chains.set(name, { hook, rules: (hook === '' ? lines : lines.slice(1)).join('\n') });
}

const ELEMENTS = '\t\telements = { ';

function readSet(
  { sets, elements }: HeldTable,
  kind: 'set' | 'map',
  name: string,
  body: readonly string[],
): void {
  const start = body.findIndex((line) => line.startsWith(ELEMENTS));
  const lines = start < 0 ? body : body.slice(0, start);
  const declared = lines.map((line) => line.trim()).filter((line) => line !== '');
  const isDynamic = declared.some((line) => line.startsWith('flags ') && line.includes('dynamic'));
  sets.set(name, { kind, lines: declared.join('\n'), isDynamic });
  if (isDynamic) return;
  const found = new Map<string, string>();
  elements.set(name, found);
  if (start < 0) return;
  const text = [body[start]?.slice(ELEMENTS.length), ...body.slice(start + 1)].join(' ');
  for (const element of elementsIn(text)) {
    const { key, value } = splitElement(element);
    found.set(key, value);
  }
}

/** Separated by commas, of which there are some in comments and in what is not ours. */
export function elementsIn(text: string): readonly string[] {
  const inside = text.slice(0, text.lastIndexOf('}'));
  if (!inside.includes('"')) return split(inside);
  const found: string[] = [];
  let from = 0;
  let isQuoted = false;
  for (let at = 0; at < inside.length; at += 1) {
    const character = inside[at];
    if (character === '"') isQuoted = !isQuoted;
    if (character !== ',' || isQuoted) continue;
    found.push(inside.slice(from, at).trim());
    from = at + 1;
  }
  return [...found, inside.slice(from).trim()].filter((element) => element !== '');
}

const split = (text: string): readonly string[] =>
  text
    .split(',')
    .map((element) => element.trim())
    .filter((element) => element !== '');

/** The key has no blank that is not around a dot. */
function splitElement(element: string): { readonly key: string; readonly value: string } {
  const end = /^\S+(?: \. \S+)*/.exec(element)?.[0].length ?? element.length;
  return { key: element.slice(0, end), value: element.slice(end) };
}
