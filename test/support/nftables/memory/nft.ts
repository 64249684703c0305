// SPDX-License-Identifier: Apache-2.0
// nft of one family without a kernel: a table in memory, and everything that was asked of it.
import type { Nft } from '../../../../src/engines/nftables/kernel/nft.ts';
import { NFT_FAMILY, TABLE } from '../../../../src/engines/nftables/rules/names.ts';
import type { HeldTable } from '../../../../src/engines/nftables/rules/types.ts';
import { failureOf } from '../../../../src/engines/nftables/state/failure.ts';
import type { Family } from '../../../../src/model/types.ts';
import { Refused, transacted } from './transacted.ts';

export interface MemoryNft extends Nft {
  /** The scripts that were done, since the last call. */
  scripts(): readonly string[];
  /** How often the table was listed. */
  lists(): number;
  /** Transactions of everybody, as the kernel's generation counts them. */
  commits(): number;
  /** Refuses lines like this from now on; undefined: none. */
  refuse(line?: RegExp, reason?: string): void;
  /** Runs nft as somebody else. */
  writeAsOther(script: string): void;
  /** `nft flush ruleset` */
  flush(): void;
  /** As `nft -y list table` prints it; '' if there is none. */
  text(): string;
}

export function memoryNft(family: Family): MemoryNft {
  let held: HeldTable | undefined;
  const scripts: string[] = [];
  let [lists, commits] = [0, 0];
  let refused: { readonly line: RegExp; readonly reason: string } | undefined;
  const text = (): string => (held === undefined ? '' : textOf(held, family));
  const failing = (script: string, line: number, reason: string) => {
    const length = script.split('\n')[line - 1]?.length ?? 0;
    const stderr = `/dev/stdin:${line}:1-${length}: Error: Could not process rule: ${reason}`;
    return failureOf(script, { code: 1, stderr });
  };
  return {
    async list() {
      lists += 1;
      return text();
    },
    async write(script) {
      const at = script.split('\n').findIndex((line) => refused?.line.test(line) === true);
      if (at >= 0) return failing(script, at + 1, refused?.reason ?? '');
      try {
        held = transacted(held, script);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        return failing(script, error.line, error.message);
      }
      scripts.push(script);
      commits += 1;
      return undefined;
    },
    scripts: () => scripts.splice(0),
    lists: () => lists,
    commits: () => commits,
    refuse(line, reason = 'Operation not supported') {
      refused = line === undefined ? undefined : { line, reason };
    },
    writeAsOther(script) {
      held = transacted(held, script);
      commits += 1;
    },
    flush() {
      held = undefined;
      commits += 1;
    },
    text,
  };
}

function textOf({ chains, sets, elements }: HeldTable, family: Family): string {
  const block = (kind: string, name: string, lines: readonly string[]): readonly string[] => [
    `\t${kind} ${name} {`,
    ...lines.filter((line) => line !== '').map((line) => `\t\t${line}`),
    '\t}',
  ];
  const lines = [
    ...[...sets].flatMap(([name, { kind, lines: declared }]) => {
      const some = [...(elements.get(name) ?? [])].map(([key, value]) => `${key}${value}`);
      const all = some.length === 0 ? [] : [`elements = { ${some.join(', ')} }`];
      return block(kind, name, [...declared.split('\n'), ...all]);
    }),
    ...[...chains].flatMap(([name, { hook, rules }]) =>
      block('chain', name, [hook, ...rules.split('\n')]),
    ),
  ];
  return [`table ${NFT_FAMILY[family]} ${TABLE} {`, ...lines, '}', ''].join('\n');
}
