// SPDX-License-Identifier: Apache-2.0
// iptables of one family without a kernel: tables in memory, and everything that was asked of them.
import type { Failure } from '../../../../src/engines/iptables/kernel/failure.ts';
import type { Tools } from '../../../../src/engines/iptables/kernel/tools.ts';
import type { TableName } from '../../../../src/engines/iptables/rules/types.ts';
import { restored, type Tables } from './restored.ts';

const BUILT_IN: Readonly<Record<TableName, readonly string[]>> = {
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
};

export interface MemoryTools extends Tools {
  /** The inputs of iptables-restore, since the last call. */
  inputs(): readonly string[];
  /** How often iptables-save ran, since the last call. */
  saves(): number;
  /** Transactions of everybody, as the kernel's generation counts them. */
  commits(): number;
  /** Of the restores from now on; undefined: they work. */
  failure: Failure | undefined;
  /** Refuses lines with this text from now on; undefined: none. */
  refuse(text: string | undefined): void;
  /** Runs iptables-restore as somebody else. */
  restoreAsOther(input: string): void;
  /** As iptables-save prints them. */
  text(): string;
  /** Removes all rules and all chains that are not built in. */
  flush(): void;
}

export function memoryTools(): MemoryTools {
  let tables = empty();
  let inputs: string[] = [];
  let saves = 0;
  let commits = 0;
  const commit = (input: string): void => {
    tables = restored(tables, input);
    commits += input.match(/^COMMIT$/gm)?.length ?? 0;
  };
  let refused: string | undefined;
  return {
    failure: undefined,
    refuse(text) {
      refused = text;
    },
    inputs: () => inputs.splice(0),
    saves() {
      const count = saves;
      saves = 0;
      return count;
    },
    commits: () => commits,
    async save() {
      saves += 1;
      return textOf(tables);
    },
    async restore(input) {
      inputs = [...inputs, input];
      if (this.failure !== undefined) return this.failure;
      const at = refused === undefined ? -1 : input.indexOf(refused);
      if (at >= 0) {
        // What stands before it is committed.
        commit(input.slice(0, input.lastIndexOf('\n*', at) + 1));
        const line = input.slice(input.lastIndexOf('\n', at) + 1).split('\n', 1)[0]!;
        return { reason: 'refused', line };
      }
      commit(input);
      return undefined;
    },
    hasChain: async (table, chain) => tables.get(table)?.has(chain) === true,
    restoreAsOther: commit,
    text: () => textOf(tables),
    flush() {
      commits += 1;
      tables = empty();
    },
  };
}

const empty = (): Tables =>
  new Map(
    Object.entries(BUILT_IN).map(([table, chains]) => [
      table as TableName,
      new Map(chains.map((chain) => [chain, ''])),
    ]),
  );

const textOf = (tables: Tables): string =>
  [...tables]
    .map(([table, chains]) =>
      [
        `*${table}`,
        ...[...chains.keys()].map(
          (chain) => `:${chain} ${BUILT_IN[table].includes(chain) ? 'ACCEPT' : '-'} [0:0]`,
        ),
        ...[...chains].flatMap(([chain, text]) =>
          text === '' ? [] : text.split('\n').map((rule) => `-A ${chain} ${rule}`),
        ),
        'COMMIT\n',
      ].join('\n'),
    )
    .join('');
