// SPDX-License-Identifier: Apache-2.0
// Rules of others, with matches and targets that types.ts does not know: read from iptables-save, printed, restored and
// read once more, they are the same. With both kinds of iptables, in both families.
import { expect, test } from 'vitest';
import type { Ruleset } from '../../../../src/engines/iptables/rules/types.ts';
import { FAMILIES, type Family } from '../../../../src/model/types.ts';
import { printRuleset } from '../../../support/iptables/print-ruleset.ts';
import { readBack, VARIANTS } from '../../../support/iptables/read-back.ts';
import { rulesetOf } from '../../../support/iptables/ruleset.ts';

const ICMP: Readonly<Record<Family, string>> = {
  IPv4: '-p icmp -m icmp --icmp-type 8',
  IPv6: '-p ipv6-icmp -m icmp6 --icmpv6-type 128',
};
const ADDRESS: Readonly<Record<Family, string>> = { IPv4: '10.1.1.5', IPv6: 'fd00::5' };

const othersOf = (family: Family): string => {
  const address = ADDRESS[family];
  return `*filter
:OTHERS - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment "a \\"b\\" \\\\ 'c'" -j OTHERS
-A FORWARD ! -i lo -o eth1 -j ACCEPT
-A FORWARD -s ${address} ! -p tcp -m limit --limit 5/min -j LOG --log-prefix "x \\"y\\"" --log-level 7
-A FORWARD -p tcp -m tcp --sport 10:20 --dport 5:6 --tcp-flags FIN,SYN,RST,ACK SYN -g OTHERS
-A FORWARD ${ICMP[family]} -m comment --comment -j -j ACCEPT
-A OTHERS -m comment --comment one -m comment --comment two
-A OTHERS -m addrtype ! --src-type LOCAL -m mark ! --mark 0x2/0x3 -j RETURN
-A OTHERS -p udp -m udp ! --dport 53 -m conntrack --ctstate UNTRACKED,SNAT -j REJECT
-A OTHERS -m statistic --mode nth --every 3 --packet 0 -m recent --name x --rcheck --rdest -j DROP
COMMIT
*nat
-A PREROUTING -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 8080
-A POSTROUTING -s ${address} -j MASQUERADE --random
COMMIT
`;
};

const WAYS = VARIANTS.flatMap((variant) => FAMILIES.map((family) => ({ variant, family })));

/** iptables-legacy lists the tables in the order in which they were first used. */
const readSorted = (saved: string, family: Family): Ruleset => {
  const { tables } = rulesetOf(saved, family);
  return { family, tables: tables.toSorted((a, b) => (a.name < b.name ? -1 : 1)) };
};

test.each(WAYS)('rules of others: $variant, $family', async ({ variant, family }) => {
  const [first] = await readBack(variant, family, [othersOf(family)]);
  expect(first?.complaint).toBe('');
  const read = readSorted(first?.saved ?? '', family);
  expect(read.tables.flatMap(({ jumps }) => jumps)).toHaveLength(7);
  const [second] = await readBack(variant, family, [printRuleset(read)]);
  expect(second?.complaint).toBe('');
  expect(readSorted(second?.saved ?? '', family)).toEqual(read);
});
