// SPDX-License-Identifier: Apache-2.0
// At which addresses of the node NodePorts answer, as rules. kube-proxy lists the node's addresses that are in
// nodePortAddresses, when it syncs; these rules match the prefix and leave it to the kernel which addresses are the
// node's, so that a new one answers at once. Loopback addresses answer processes of the node alone: kube-proxy's rules
// also translate what a neighbour sends there.
import { isLoopback, prefixContains } from '../../../lib/ip.ts';
import type { Family } from '../../../model/types.ts';
import type { Plan } from '../../../plan/types.ts';
import { KUBE_NODEPORTS } from '../rules/names.ts';
import type { Rule, Target } from '../rules/types.ts';
import type { RenderSettings } from './settings.ts';

export interface NodePortAddresses {
  readonly family: Family;
  readonly accepted: 'all' | readonly string[];
  readonly hasLocalhost: boolean;
}

const LOCALHOST: Readonly<Record<Family, string>> = { IPv4: '127.0.0.0/8', IPv6: '::1/128' };

const addressOf = (prefix: string): string => prefix.slice(0, prefix.indexOf('/'));

const isInLocalhost = (prefix: string): boolean => isLoopback(addressOf(prefix));

const holdsLocalhost = (prefix: string, family: Family): boolean =>
  prefixContains(prefix, addressOf(LOCALHOST[family]));

/** NodePorts on 127.0.0.0/8 need route_localnet, which IPv6 does not have. */
export function nodePortAddresses(
  plan: Pick<Plan, 'nodePortAddresses'>,
  { hasLocalhostNodePorts }: Pick<RenderSettings, 'hasLocalhostNodePorts'>,
  family: Family,
): NodePortAddresses {
  const accepted = plan.nodePortAddresses[family];
  const hasLocalhost =
    family === 'IPv4' &&
    hasLocalhostNodePorts &&
    (accepted === 'all' ||
      accepted.some((prefix) => isInLocalhost(prefix) || holdsLocalhost(prefix, family)));
  return { family, accepted, hasLocalhost };
}

const COMMENT = 'kubernetes service nodeports; NOTE: this must be the last rule in this chain';

const TO_NODE_PORTS: Target = { kind: 'jump', chain: KUBE_NODEPORTS };

/** The last rules of KUBE-SERVICES in nat. */
export function nodePortJumps(addresses: NodePortAddresses): readonly Rule[] {
  const { family, accepted, hasLocalhost } = addresses;
  const jump = (match: Rule): Rule => ({ comment: COMMENT, ...match, target: TO_NODE_PORTS });
  const fromHere = (prefix: string): Rule => jump({ destination: { prefix }, isSourceLocal: true });
  const localhost = LOCALHOST[family];
  if (accepted === 'all') {
    const others = jump({
      destination: { prefix: localhost, not: true },
      isDestinationLocal: true,
    });
    return hasLocalhost ? [fromHere(localhost), others] : [others];
  }
  const around = accepted.filter(
    (prefix) => holdsLocalhost(prefix, family) && !isInLocalhost(prefix),
  );
  const inside = around.length > 0 ? [localhost] : accepted.filter(isInLocalhost);
  return [
    ...(hasLocalhost ? inside.map(fromHere) : []),
    ...(around.length > 0 ? [skipLocalhost(family)] : []),
    ...accepted
      .filter((prefix) => !isInLocalhost(prefix))
      .map((prefix) => jump({ destination: { prefix }, isDestinationLocal: true })),
  ];
}

const skipLocalhost = (family: Family): Rule => ({
  comment: 'no kubernetes service nodeports on loopback addresses',
  destination: { prefix: LOCALHOST[family] },
  target: { kind: 'jump', chain: 'RETURN' },
});

/**
 * Rules of KUBE-EXTERNAL-SERVICES: those of NodePorts, which match every address of the node, restricted to the
 * addresses at which they answer.
 */
export function atNodePortAddresses(
  rules: readonly Rule[],
  { family, accepted, hasLocalhost }: NodePortAddresses,
): readonly Rule[] {
  const hasNodePorts = rules.some(({ isDestinationLocal }) => isDestinationLocal);
  const reachesLocalhost =
    accepted === 'all' || accepted.some((prefix) => holdsLocalhost(prefix, family));
  const isGuarded = hasNodePorts && !hasLocalhost && reachesLocalhost;
  const restricted =
    accepted === 'all'
      ? rules
      : rules.flatMap((rule) =>
          rule.isDestinationLocal
            ? accepted.map((prefix) => ({ ...rule, destination: { prefix } }))
            : [rule],
        );
  return isGuarded ? [skipLocalhost(family), ...restricted] : restricted;
}
