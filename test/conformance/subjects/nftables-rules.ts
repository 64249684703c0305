// SPDX-License-Identifier: Apache-2.0
// What a new connection gets from the table of the nftables dataplane as nft prints it, by the reader and the walker of
// `fairlead compare`.
import { readNft } from '../../../src/compare/rules/nft/program.ts';
import { numberOf } from '../../../src/compare/rules/ranges.ts';
import { rulesSide } from '../../../src/compare/sides/rules-side.ts';
import type { ClientClass } from '../../../src/compare/walk/path.ts';
import { TABLE } from '../../../src/engines/nftables/rules/names.ts';
import { familyOf } from '../../../src/lib/ip.ts';
import { clientOf } from '../../../src/plan/explain/client.ts';
import type { Packet } from '../../../src/plan/explain/packet.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { hostOf, interfaceOf, isOwn } from '../../support/iptables/agreement.ts';
import type { MemoryNftables } from '../../support/nftables/memory/dataplane.ts';
import type { Answer } from '../conformance.ts';

export function answerOfTable(rules: MemoryNftables, plan: Plan, packet: Packet): Answer {
  const { source, destination: address, destinationPort: port, protocol } = packet;
  const family = familyOf(source);
  const isOurs = (table: string): boolean => table.endsWith(` ${TABLE}`);
  const tables = { isProxys: isOurs, isLeftOut: () => false };
  const program = readNft(family, rules[family].text(), tables);
  const client = classOf(plan, packet);
  const own = [...plan.node.localAddresses, ...(client.device === undefined ? [source] : [])];
  const side = rulesSide({ kind: 'nftables', name: 'nftables' }, program, { own });
  for (const { text } of side.unread()) throw new Error(`cannot be read: ${text}`);
  const [answer] = side.answers({ address, port, protocol }, [client]);
  if (answer === undefined || answer.verdict === 'mixed' || answer.affinitySeconds === undefined)
    throw new Error(`not the same for all packets: ${JSON.stringify(answer)}`);
  const { verdict, backends } = answer;
  const keeping = backends.filter(({ masquerade }) => masquerade !== true);
  // Besides the client itself, which is masqueraded whatever the traffic rule says.
  const isMasqueraded = backends.some(
    ({ text, masquerade }) => masquerade === true && hostOf(text) !== source,
  );
  return {
    verdict,
    backends: backends.map(({ text }) => text),
    masquerade: isMasqueraded,
    keepingClient: isMasqueraded ? keeping.map(({ text }) => text) : [],
  };
}

function classOf(plan: Plan, packet: Packet): ClientClass {
  const { source } = packet;
  const client = clientOf(plan, packet);
  const at = numberOf(source);
  return {
    ...{ sources: { from: at, to: at }, source, at },
    device: interfaceOf(plan, packet, client),
    isOwn: isOwn(plan, packet, client, source),
  };
}
