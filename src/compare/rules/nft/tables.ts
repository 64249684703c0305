// SPDX-License-Identifier: Apache-2.0
// What `nft -y list ruleset` prints -> tables of chains and sets, their lines still text.
import { blocksOf } from '../../../engines/nftables/rules/parse.ts';
import { secondsIn } from '../../../engines/nftables/state/sets-view.ts';

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
  /** As printed, on one line or more. */
  readonly lines: readonly string[];
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
  return printed.split(/^(?=table )/m).flatMap((text) => {
    const [first = '', ...lines] = text.split('\n');
    const [, family = '', name = ''] = /^table (\S+) (\S+) \{/.exec(first) ?? [];
    if (name === '') return [];
    const chains: TextChain[] = [];
    const sets = new Map<string, TextSet>();
    for (const { kind, name: own, body } of blocksOf(lines)) {
      if (kind === 'chain') chains.push(chainOf(own, body));
      else if (kind === 'set' || kind === 'map') sets.set(own, setOf(own, body));
    }
    const isDormant = lines.some((line) => /^\tflags .*dormant/.test(line));
    return [{ family, name, isDormant, chains, sets }];
  });
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
    seconds: timeout === undefined ? 0 : secondsIn(timeout.slice('timeout '.length)),
    lines: start < 0 ? [] : [body[start]?.slice(ELEMENTS.length) ?? '', ...body.slice(start + 1)],
  };
}

/** The words of each element: `10.96.0.10`, `.`, `tcp`, `.`, `80`, `:`, `goto`, `service-X`. */
export function* elementsOf({ lines }: TextSet): Iterable<readonly string[]> {
  let element: string[] = [];
  for (const line of lines) {
    for (const word of wordsOf(line)) {
      if (word !== ',' && word !== '}') {
        element.push(word);
        continue;
      }
      if (element.length > 0) yield element;
      element = [];
    }
  }
}
