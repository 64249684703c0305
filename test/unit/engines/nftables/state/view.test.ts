// SPDX-License-Identifier: Apache-2.0
// What commands show of a table, from the table as nft prints it.
import { expect, test } from 'vitest';
import { backendsOf, secondsOf } from '../../../../../src/engines/nftables/state/sets-view.ts';

const endpoint = (n: number): string =>
  `endpoint-AAAA000${n}-default/web/tcp/http__10.1.1.${n}/8080`;
const affinity = (n: number): string => endpoint(n).replace('endpoint', 'affinity');

/** A service- chain with session affinity, and those of its endpoints. */
function tableOf(numbers: readonly number[]) {
  const remembered = numbers.map((n) => `ip saddr @${affinity(n)} goto ${endpoint(n)}`);
  const [first = ''] = numbers.map((n) => `goto ${endpoint(n)}`);
  const chosen = numbers.map((n, at) => `${at} : goto ${endpoint(n)}`).join(', ');
  const choice =
    numbers.length === 1 ? first : `numgen random mod ${numbers.length} vmap { ${chosen} }`;
  const comment = 'comment "default/web:http"';
  const chains = new Map([
    ['service', { hook: '', rules: [...remembered, `${choice} ${comment}`].join('\n') }],
    ...numbers.map((n) => {
      const update = `update @${affinity(n)} { ip saddr }`;
      const rules = `${update}\nmeta l4proto tcp dnat to 10.1.1.${n}:8080 ${comment}`;
      return [endpoint(n), { hook: '', rules }] as const;
    }),
  ]);
  const lines = 'type ipv4_addr\nsize 65535\nflags dynamic,timeout\ntimeout 3h1m1s';
  const sets = new Map(
    numbers.map((n) => [affinity(n), { kind: 'set', lines, isDynamic: true } as const]),
  );
  return { chains, sets, elements: new Map(), foreign: new Set<string>() };
}

test.each([[[1]], [[1, 2]], [[1, 2, 3]]])('session affinity: the backends of %j', (numbers) => {
  const table = tableOf(numbers);
  expect(backendsOf(table, 'service')).toEqual(numbers.map((n) => `10.1.1.${n}:8080`));
  expect(secondsOf(table, 'service')).toBe(10_861);
});

test('a chain that has no backend is told by its name', () => {
  const table = tableOf([1, 2]);
  table.chains.set(endpoint(2), { hook: '', rules: '' });
  expect(backendsOf(table, 'service')).toEqual(['10.1.1.1:8080', `chain ${endpoint(2)}?`]);
});
