// SPDX-License-Identifier: Apache-2.0
// A table with everything that a Service may need, to find out what a kernel or an nft lacks.
import type { Family } from '../../../model/types.ts';
import { endpointsDeclaration, sharedChains, sharedSets } from '../rows/shared.ts';
import { endpointsMap, NFT_FAMILY, TABLE } from '../rules/names.ts';
import { emptyTable } from '../rules/parse.ts';
import type { Chain, SetDeclaration } from '../rules/types.ts';
import { diffTable } from './diff.ts';
import { scriptOf } from './script.ts';

const NAME = 'fairlead-trial';

const ADDRESS = {
  IPv4: { type: 'ipv4_addr', example: '192.0.2.1' },
  IPv6: { type: 'ipv6_addr', example: '2001:db8::1' },
} as const;

export function trialScript(family: Family): string {
  const ip = NFT_FAMILY[family];
  const { type, example } = ADDRESS[family];
  const shared = sharedChains({
    ...{ family, mark: 1, isTcpLiberal: false, masquerades: 'everyone' },
    nodePortAddresses: { IPv4: 'all', IPv6: 'all' },
    detector: { IPv4: undefined, IPv6: undefined },
  });
  const map = endpointsMap('TCP', 0);
  const rules = [
    `meta l4proto tcp dnat ${ip} to numgen random mod 2 offset 2 map @${map}`,
    `meta l4proto udp dnat ${ip} to numgen random mod 3 map { 0-1 : ${example} . 1, 2 : ${example} . 2 }`,
    `${ip} saddr @affinity goto reject-chain`,
    'numgen random mod 2 vmap { 0 : goto reject-chain, 1 : drop }',
    `update @affinity { ${ip} saddr }`,
    'iifname "x*" return',
  ].join('\n');
  const affinity: SetDeclaration = {
    ...{ kind: 'set', isDynamic: true },
    lines: `type ${type}\nsize 65535\nflags dynamic,timeout\ntimeout 1h`,
  };
  const wanted = {
    chains: new Map<string, Chain>([...shared, ['x', { hook: '', rules }]]),
    sets: new Map([
      ...sharedSets(family),
      ['affinity', affinity],
      [map, endpointsDeclaration(map, family)],
    ]),
    elements: new Map(),
  };
  const script = scriptOf(diffTable(emptyTable(), wanted, true), family, false);
  return script.replaceAll(` ${ip} ${TABLE}`, ` ${ip} ${NAME}`);
}
