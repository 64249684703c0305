// SPDX-License-Identifier: Apache-2.0
// What `nft -y list ruleset` prints -> tables of chains and sets, their lines still text.

export interface TextChain {
  readonly name: string;
  /** `type nat hook prerouting priority -100; policy accept;`; '' for a chain that others jump to. */
  readonly hook: string;
  readonly rules: readonly string[];
}

export interface TextSet {
  readonly name: string;
  /** Packets add its elements. */
  readonly isDynamic: boolean;
  /** Of its elements; 0 if they have none. */
  readonly seconds: number;
  /** The words of each element: `10.96.0.10`, `.`, `tcp`, `.`, `80`, `:`, `goto`, `service-X`. */
  readonly elements: readonly (readonly string[])[];
}

export interface TextTable {
  /** `ip`, `ip6`, `inet` and others. */
  readonly family: string;
  readonly name: string;
  /** The kernel calls none of its chains. */
  readonly isDormant: boolean;
  readonly chains: readonly TextChain[];
  readonly sets: ReadonlyMap<string, TextSet>;
}

const WORD = /"[^"]*"|[{},]|[^\s{},;]+/g;

/** Quotes, braces and commas are words of their own. */
export const wordsOf = (line: string): readonly string[] => line.match(WORD) ?? [];

export function readTables(printed: string): readonly TextTable[] {
  const tables: TextTable[] = [];
  let open: { chains: TextChain[]; sets: Map<string, TextSet> } | undefined;
  const lines = printed.split('\n');
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    const [, family = '', name = ''] = /^table (\S+) (\S+) \{/.exec(line) ?? [];
    if (name !== '') {
      open = { chains: [], sets: new Map() };
      const isDormant =
        /^\tflags .*dormant/.test(lines[at + 1] ?? '') ||
        /^\tflags .*dormant/.test(lines[at + 2] ?? '');
      tables.push({ family, name, isDormant, ...open });
      continue;
    }
    const [, kind = '', object = ''] = /^\t(chain|set|map) (\S+) \{$/.exec(line) ?? [];
    if (kind === '') continue;
    const from = at + 1;
    while (at < lines.length && lines[at] !== '\t}') at += 1;
    const body = lines.slice(from, at);
    if (kind === 'chain') open?.chains.push(chainOf(object, body));
    else open?.sets.set(object, setOf(object, body));
  }
  return tables;
}

function chainOf(name: string, body: readonly string[]): TextChain {
  const rules = joined(body.filter((line) => !line.trim().startsWith('comment "')));
  const [first = ''] = rules;
  const hook = /^type \S+ hook /.test(first) ? first : '';
  return { name, hook, rules: hook === '' ? rules : rules.slice(1) };
}

/** A rule with a long list in braces is printed on several lines. */
function joined(body: readonly string[]): readonly string[] {
  const rules: string[] = [];
  let depth = 0;
  for (const line of body) {
    const text = line.trim();
    if (text === '') continue;
    if (depth > 0) rules[rules.length - 1] += ` ${text}`;
    else rules.push(text);
    for (const word of wordsOf(text)) depth += word === '{' ? 1 : word === '}' ? -1 : 0;
  }
  return rules;
}

const ELEMENTS = '\t\telements = {';

function setOf(name: string, body: readonly string[]): TextSet {
  const start = body.findIndex((line) => line.startsWith(ELEMENTS));
  const declared = (start < 0 ? body : body.slice(0, start)).map((line) => line.trim());
  const flags = declared.find((line) => line.startsWith('flags ')) ?? '';
  const timeout = declared.find((line) => line.startsWith('timeout '));
  return {
    name,
    isDynamic: flags.includes('dynamic'),
    seconds: timeout === undefined ? 0 : secondsOf(timeout.slice('timeout '.length)),
    elements:
      start < 0
        ? []
        : elementsOf([body[start]?.slice(ELEMENTS.length) ?? '', ...body.slice(start + 1)]),
  };
}

function elementsOf(lines: readonly string[]): readonly (readonly string[])[] {
  const found: string[][] = [];
  let element: string[] = [];
  for (const word of lines.flatMap(wordsOf)) {
    if (word !== ',' && word !== '}') {
      element.push(word);
      continue;
    }
    if (element.length > 0) found.push(element);
    element = [];
  }
  return found;
}

const UNITS: Readonly<Record<string, number>> = { d: 86_400, h: 3_600, m: 60, s: 1 };

/** `3h`, `1d2h30m5s` */
export function secondsOf(text: string): number {
  let seconds = 0;
  for (const [, count = '', unit = ''] of text.matchAll(/(\d+)([dhms])(?!s)/g))
    seconds += Number(count) * (UNITS[unit] ?? 0);
  return seconds;
}
