// SPDX-License-Identifier: Apache-2.0
// What iptables-restore --noflush makes of a table, by its lines alone; what the kernel would refuse is an error.
import type { TableName } from '../../../../src/engines/iptables/rules/types.ts';

export type Tables = ReadonlyMap<TableName, ReadonlyMap<string, string>>;

export function restored(before: Tables, input: string): Tables {
  const tables = new Map([...before].map(([name, chains]) => [name, split(chains)]));
  let chains = new Map<string, string[]>();
  let name: TableName | undefined;
  for (const line of input.split('\n').filter((one) => one !== '')) {
    if (line.startsWith('*')) {
      name = line.slice(1) as TableName;
      chains = split(joined(tables.get(name) ?? new Map()));
    } else if (line === 'COMMIT') {
      check(chains);
      tables.set(name!, chains);
    } else run(chains, line);
  }
  return new Map([...tables].map(([table, found]) => [table, joined(found)]));
}

function run(chains: Map<string, string[]>, line: string): void {
  const [, verb = '', chain = '', rule = ''] = /^(:|-\w )(\S+) ?(.*)$/.exec(line) ?? [];
  const rules = chains.get(chain);
  if (verb === ':') {
    chains.set(chain, []);
    return;
  }
  if (rules === undefined) throw new Error(`no chain ${chain}: ${line}`);
  const target = /-[jg] (KUBE-\S+)/.exec(rule)?.[1];
  if (target !== undefined && verb !== '-D ' && !chains.has(target))
    throw new Error(`no target: ${line}`);
  if (verb === '-A ') rules.push(rule);
  else if (verb === '-I ') rules.unshift(rule);
  else if (verb === '-D ') {
    const at = rules.indexOf(rule);
    if (at < 0) throw new Error(`no such rule: ${line}`);
    rules.splice(at, 1);
  } else if (verb === '-X ') {
    const text = [...chains.values()].flat().join('\n');
    if (rules.length > 0 || new RegExp(`-[jg] ${chain}(?: |$)`, 'm').test(text))
      throw new Error(`in use: ${line}`);
    chains.delete(chain);
  } else throw new Error(`unknown: ${line}`);
}

/** The kernel refuses a table with a jump to nowhere. */
function check(chains: ReadonlyMap<string, readonly string[]>): void {
  for (const rule of [...chains.values()].flat()) {
    const target = /-[jg] (KUBE-\S+)/.exec(rule)?.[1];
    if (target !== undefined && !chains.has(target)) throw new Error(`jumps to nowhere: ${rule}`);
  }
}

const split = (chains: ReadonlyMap<string, string>): Map<string, string[]> =>
  new Map([...chains].map(([name, text]) => [name, text === '' ? [] : text.split('\n')]));

const joined = (chains: ReadonlyMap<string, readonly string[]>): Map<string, string> =>
  new Map([...chains].map(([name, rules]) => [name, rules.join('\n')]));
