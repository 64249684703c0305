// SPDX-License-Identifier: Apache-2.0
// Whether rules are still as they were written: our chains, and the jumps to them from chains of others. Nothing else counts.
import { isOurs, isShared } from './ours.ts';
import { type ChainText, type HeldTable, type HeldTables, rulesIn } from './text.ts';

const NONE: HeldTable = new Map();

/** @param written as it was read or written last */
export const isAsWritten = (written: HeldTables, now: HeldTables): boolean =>
  [...written].every(([name, chains]) => {
    const found = now.get(name) ?? NONE;
    const isTarget = (chain: string): boolean => isOurs(name, chain) || isShared(chain);
    return [...chains].every(([chain, text]) => {
      const other = found.get(chain);
      if (other === text) return true;
      if (isOurs(name, chain)) return false;
      if (isShared(chain)) return other !== undefined && hasAll(other, text);
      return sameJumps(text, other ?? '', isTarget);
    });
  });

function hasAll(text: ChainText, rules: ChainText): boolean {
  const known = new Set(rulesIn(text));
  return rulesIn(rules).every((rule) => known.has(rule));
}

function sameJumps(a: ChainText, b: ChainText, isTarget: (chain: string) => boolean): boolean {
  const jumps = (text: ChainText): string =>
    rulesIn(text)
      .filter((rule) => isTarget(/ -[jg] (\S+)/.exec(` ${rule}`)?.[1] ?? ''))
      .join('\n');
  return jumps(a) === jumps(b);
}
