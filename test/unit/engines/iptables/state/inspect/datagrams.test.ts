// SPDX-License-Identifier: Apache-2.0
// What a start learns of an earlier agent's UDP and SCTP frontends, from lines alone, is what the parsed rules say.
import { expect, test } from 'vitest';
import { datagramFrontends } from '../../../../../../src/engines/iptables/state/inspect/datagrams.ts';
import { heldFrontends } from '../../../../../../src/engines/iptables/state/inspect/view.ts';
import { memoryIptables } from '../../../../../support/iptables/memory/dataplane.ts';
import { storyRulesets } from '../../../../../support/iptables/story-rulesets.ts';

test('of every story', async () => {
  let seen = 0;
  for (const { states } of storyRulesets()) {
    for (const { plan } of states.slice(-1)) {
      const { dataplane, IPv4, IPv6 } = memoryIptables();
      await dataplane.sync(plan, 'all', []);
      for (const [family, tables] of [['IPv4', IPv4] as const, ['IPv6', IPv6] as const]) {
        const text = tables.text();
        const all = heldFrontends(family, text).filter(
          ({ id }) => id.protocol === 'UDP' || id.protocol === 'SCTP',
        );
        const keys = (held: ReturnType<typeof datagramFrontends>): readonly string[] =>
          held.map(({ id, service }) =>
            JSON.stringify([id.address, id.port, id.protocol, service]),
          );
        const found = keys(datagramFrontends(family, text));
        seen += found.length;
        // One without endpoints has a rule that refuses it, and translates nothing.
        expect(keys(all)).toEqual(expect.arrayContaining([...new Set(found)]));
        const served = keys(all).filter((key) => !found.includes(key));
        expect(served.filter((key) => hasChain(text, key))).toEqual([]);
      }
    }
  }
  expect(seen).toBeGreaterThan(20);
});

/** Whether a frontend that was not found is translated by any rule. */
function hasChain(text: string, key: string): boolean {
  const [address, port, protocol] = JSON.parse(key) as [string | null, number, string];
  return text
    .split('\n')
    .some(
      (line) =>
        /^-A KUBE-(?:SERVICES|NODEPORTS) /.test(line) &&
        / -j KUBE-(?:SVC|SVL|EXT|FW)-/.test(line) &&
        line.includes(` -p ${protocol.toLowerCase()} `) &&
        line.includes(`--dport ${port} `) &&
        (address === null ? line.includes('NODEPORTS') : line.includes(` -d ${address}/`)),
    );
}
