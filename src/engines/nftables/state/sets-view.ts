// SPDX-License-Identifier: Apache-2.0
// Which backends a chain leads to, and where an earlier agent has put them.
import { hostPort } from '../../../lib/address-bytes.ts';
import type { FoundBlock } from '../rows/blocks.ts';
import type { HeldTable } from '../rules/types.ts';

export const NOBODY: readonly string[] = [];

const rulesOf = ({ chains }: HeldTable, chain: string): readonly string[] =>
  (chains.get(chain)?.rules ?? '').split('\n');

/** The chain of the set that such a client is sent to; of a service- or local- chain that chain itself. */
export function chainFor(table: HeldTable, chain: string, isHost: boolean): string {
  if (!chain.startsWith('external-')) return chain;
  for (const rule of rulesOf(table, chain)) {
    const [, match = '', target = ''] = /^(.*? )?goto (\S+)/.exec(rule) ?? [];
    if (match === '' && target !== '') return target;
    if (isHost && match === 'fib saddr type local ') return target;
  }
  return '';
}

const BLOCK = /numgen random mod (\d+)(?: offset (\d+))? map @(\S+)/;

export function backendsOf(table: HeldTable, chain: string): readonly string[] {
  const [rule = ''] = rulesOf(table, chain).filter((one) => !/^ip6? saddr @/.test(one));
  const direct = / dnat to (\S+)/.exec(rule)?.[1];
  if (direct !== undefined) return [direct];
  const [, count = '0', offset = '0', map = ''] = BLOCK.exec(rule) ?? [];
  if (map !== '') {
    const elements = table.elements.get(map);
    return Array.from({ length: Number(count) }, (_, index) =>
      backendText(elements?.get(String(Number(offset) + index))?.slice(' : '.length) ?? ''),
    );
  }
  const inRule = / map \{ (.*) \}/.exec(rule)?.[1];
  if (inRule !== undefined)
    return inRule.split(', ').map((one) => backendText(one.slice(one.indexOf(' : ') + 3)));
  // With session affinity: a chain for each endpoint.
  return [...rule.matchAll(/goto (endpoint-[^\s,]+)/g)].map(([, endpoint = '']) =>
    rulesOf(table, endpoint).reduce(
      (found, one) => / dnat to (\S+)/.exec(one)?.[1] ?? found,
      `chain ${endpoint}?`,
    ),
  );
}

/** `10.1.1.5 . 8080` -> `10.1.1.5:8080` */
function backendText(target: string): string {
  const [address = '', port = ''] = target.split(' . ');
  return hostPort(address, Number(port));
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { d: 86_400, h: 3_600, m: 60, s: 1 };

/** Of session affinity; 0: there is none. */
export function secondsOf(table: HeldTable, chain: string): number {
  const set = /saddr @(\S+)/.exec(table.chains.get(chain)?.rules ?? '')?.[1] ?? '';
  return secondsIn(/^timeout (\S+)$/m.exec(table.sets.get(set)?.lines ?? '')?.[1] ?? '');
}

/** `3h1m1s` -> 10861 */
export const secondsIn = (duration: string): number =>
  [...duration.matchAll(/(\d+)([dhms])/g)].reduce(
    (sum, [, count = '0', unit = 's']) => sum + Number(count) * (UNIT_SECONDS[unit] ?? 0),
    0,
  );

/** Where the backends of chains stand in the maps of all endpoints. */
export const blocksIn = ({ chains }: HeldTable): readonly FoundBlock[] =>
  [...chains].flatMap(([chain, { rules }]) => {
    const [, count, start = '0'] = BLOCK.exec(rules) ?? [];
    return count === undefined ? [] : [{ chain, start: Number(start), count: Number(count) }];
  });
