// SPDX-License-Identifier: Apache-2.0
// What `nft -f` makes of the table `fairlead` of one family, by its lines alone; what nft or the kernel would refuse is an error.
import { emptyTable, parseTable } from '../../../../src/engines/nftables/rules/parse.ts';
import type { HeldTable } from '../../../../src/engines/nftables/rules/types.ts';

/** That is refused: with it, nothing of the transaction is done. */
export class Refused extends Error {
  /** From 1. */
  readonly line: number;

  constructor(line: number, reason: string) {
    super(reason);
    this.line = line;
  }
}

const MISSING = 'No such file or directory';
const BUSY = 'Device or resource busy';
const EXISTS = 'File exists';

/** @param held undefined: there is no table @returns what is there afterwards; undefined: no table */
export function transacted(held: HeldTable | undefined, script: string): HeldTable | undefined {
  let table = held === undefined ? undefined : structuredClone(held);
  for (const [index, line] of script.split('\n').entries()) {
    if (line === '') continue;
    const [, verb = '', kind = '', , , rest = ''] =
      /^(\w+) (\w+) (ip6?) (fairlead) ?(.*)$/.exec(line) ?? [];
    try {
      if (kind === 'table') table = verb === 'add' ? (table ?? emptyTable()) : undefined;
      else if (table === undefined) throw new Error(MISSING);
      else changed(table, `${verb} ${kind}`, rest);
    } catch (error) {
      throw new Refused(index + 1, error instanceof Error ? error.message : String(error));
    }
  }
  return table;
}

function changed(table: HeldTable, what: string, rest: string): void {
  const [name = ''] = rest.split(' ', 1);
  const command = COMMANDS[what];
  if (command === undefined) throw new Error(`syntax error: ${what}`);
  command(table, name, rest.slice(name.length + 1));
}

type Command = (table: HeldTable, name: string, text: string) => void;

const COMMANDS: Readonly<Record<string, Command>> = {
  'add chain': (table, name, text) => addChain(table, name, braced(text)),
  'flush chain': (table, name) => setRules(table, name, ''),
  'add rule': (table, name, text) => addRule(table, name, text),
  'delete chain': (table, name) => deleteChain(table, name),
  'add set': (table, name, text) => addSet(table, 'set', name, braced(text)),
  'add map': (table, name, text) => addSet(table, 'map', name, braced(text)),
  'delete set': (table, name) => deleteSet(table, name),
  'delete map': (table, name) => deleteSet(table, name),
  'add element': (table, name, text) => {
    for (const [key, value] of elementsIn(text)) addElement(table, name, key, value);
  },
  'delete element': ({ elements }, name, text) => {
    for (const key of elementsIn(text).keys())
      if (elements.get(name)?.delete(key) !== true) throw new Error(MISSING);
  },
};

/** `{ type ipv4_addr; size 9; }` -> `type ipv4_addr; size 9;` */
const braced = (text: string): string => /^\{ (.*) \}$/.exec(text)?.[1] ?? '';

/** `{ 10.96.0.10 . tcp . 80 : drop }` -> its elements */
const elementsIn = (text: string): ReadonlyMap<string, string> =>
  parseTable(`\tmap x {\n\t\telements = ${text}\n\t}`).elements.get('x') ?? new Map();

function addChain({ chains }: HeldTable, name: string, hook: string): void {
  const before = chains.get(name);
  if (before === undefined) chains.set(name, { hook, rules: '' });
  else if (before.hook !== hook) throw new Error(EXISTS);
}

function setRules({ chains }: HeldTable, name: string, rules: string): void {
  const chain = chains.get(name);
  if (chain === undefined) throw new Error(MISSING);
  chains.set(name, { ...chain, rules });
}

function addRule(table: HeldTable, name: string, rule: string): void {
  const missing = namesIn(rule).find(
    ({ what, name: one }) => !(what === 'chain' ? table.chains : table.sets).has(one),
  );
  if (missing !== undefined) throw new Error(MISSING);
  const before = table.chains.get(name)?.rules ?? '';
  setRules(table, name, before === '' ? rule : `${before}\n${rule}`);
}

/** What a rule or an element leads to. */
const namesIn = (text: string) => [
  ...[...text.matchAll(/\b(?:jump|goto) (\S+?)(?=,|\s|$)/g)].map(([, name = '']) => ({
    what: 'chain',
    name,
  })),
  ...[...text.matchAll(/@([\w-]\S*?)(?=,|\s|$)/g)]
    .filter(({ index }) => !isQuoted(text, index))
    .map(([, name = '']) => ({ what: 'set', name })),
];

/** Inside a comment. */
const isQuoted = (text: string, index: number): boolean =>
  (text.slice(0, index).split('"').length - 1) % 2 === 1;

const isNamed = (table: HeldTable, what: string, name: string): boolean => {
  const rules = [...table.chains.values()].map(({ rules: text }) => text);
  const values = [...table.elements.values()].flatMap((elements) => [...elements.values()]);
  return [...rules, ...values]
    .flatMap((text) => text.split('\n'))
    .flatMap(namesIn)
    .some((one) => one.what === what && one.name === name);
};

function deleteChain(table: HeldTable, name: string): void {
  const chain = table.chains.get(name);
  if (chain === undefined) throw new Error(MISSING);
  if (chain.rules !== '' || isNamed(table, 'chain', name)) throw new Error(BUSY);
  table.chains.delete(name);
}

function addSet(table: HeldTable, kind: 'set' | 'map', name: string, declared: string): void {
  const lines = declared.split(/; ?/).filter((line) => line !== '');
  const set = { kind, lines: lines.join('\n'), isDynamic: /\bdynamic\b/.test(declared) };
  const before = table.sets.get(name);
  if (before !== undefined && before.lines !== set.lines) throw new Error(EXISTS);
  if (before !== undefined) return;
  table.sets.set(name, set);
  if (!set.isDynamic) table.elements.set(name, new Map());
}

function deleteSet(table: HeldTable, name: string): void {
  if (!table.sets.has(name)) throw new Error(MISSING);
  if (isNamed(table, 'set', name)) throw new Error(BUSY);
  table.sets.delete(name);
  table.elements.delete(name);
}

function addElement(table: HeldTable, set: string, key: string, value: string): void {
  const elements = table.elements.get(set);
  const before = elements?.get(key);
  if (elements === undefined) throw new Error(MISSING);
  if (before !== undefined && before !== value) throw new Error(EXISTS);
  const missing = namesIn(value).find(({ name }) => !table.chains.has(name));
  if (missing !== undefined) throw new Error(MISSING);
  elements.set(key, value);
}
