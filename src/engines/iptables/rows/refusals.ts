// SPDX-License-Identifier: Apache-2.0
// What is refused or dropped because there is no backend for it, or because of its source. In filter: it meets only
// what nat has not translated.

import type { Frontend, ServicePortPlan } from '../../../plan/types.ts';
import type { ServiceChains } from '../../rules/chains.ts';
import { emptyVerdict, isServed } from '../../rules/served.ts';
import { servicePortName } from '../rules/names.ts';
import type { Rule, Target } from '../rules/types.ts';
import { frontendMatch } from './backend-chains.ts';
import type { Fragment } from './fragment.ts';
import { DROP, jumpTo, REJECT } from './targets.ts';

export type Refusals = Pick<Fragment, 'refusals' | 'externalRefusals' | 'firewall'>;

export function refusalRules(port: ServicePortPlan, chains: ServiceChains): Refusals {
  const internal = port.frontends.filter(({ kind }) => kind === 'ClusterIP');
  const external = port.frontends.filter(({ kind }) => kind !== 'ClusterIP');
  return {
    refusals: internal.flatMap((frontend) => refusal(port, frontend)),
    externalRefusals: external.flatMap((frontend) => externalRefusal(port, frontend)),
    firewall: external.flatMap((frontend) => firewallRules(port, frontend, chains)),
  };
}

interface Verdict {
  readonly comment: string;
  readonly target: Target;
}

/** What becomes of clients without a backend; undefined if there are none. */
function verdict(port: ServicePortPlan, frontend: Frontend): Verdict | undefined {
  const whenEmpty = emptyVerdict(port, frontend);
  if (whenEmpty === undefined) return undefined;
  const owner = servicePortName(port);
  return whenEmpty === 'reject'
    ? { comment: `${owner} has no endpoints`, target: REJECT }
    : { comment: `${owner} has no local endpoints`, target: DROP };
}

function refusal(port: ServicePortPlan, frontend: Frontend): readonly Rule[] {
  const found = verdict(port, frontend);
  if (found === undefined) return [];
  return [{ ...found, ...frontendMatch(frontend, port) }];
}

/** An address of the node is meant; of a NodePort any. */
const atNode = ({ kind }: Frontend): Rule =>
  kind === 'NodePort' ? { isDestinationLocal: true } : {};

const externalRefusal = (port: ServicePortPlan, frontend: Frontend): readonly Rule[] =>
  refusal(port, frontend).map((rule) => ({ ...rule, ...atNode(frontend) }));

/** An endpoint on the node's own network may have the number of the NodePort, of this Service or of another one. */
const untranslated = ({ kind }: Frontend): Rule =>
  kind === 'NodePort' ? { states: { any: ['DNAT'], not: true } } : {};

/** Then the kernel changes nothing of the packet, and does not say that it has: conntrack has no state DNAT for it. */
const mayStayAsItIs = ({ cluster, local }: ServicePortPlan, { kind, port }: Frontend): boolean =>
  kind === 'NodePort' && [...cluster, ...local].some((backend) => backend.port === port);

/**
 * What comes here has not been translated: its KUBE-FW- chain does that for what the ranges accept. Without endpoints
 * there is no such chain, and what they accept is refused later.
 */
function firewallRules(
  port: ServicePortPlan,
  frontend: Frontend,
  { firewall }: ServiceChains,
): readonly Rule[] {
  const { sources } = port;
  if (!frontend.isFiltered || sources === undefined) return [];
  const owner = servicePortName(port);
  const rule = (comment: string, target: Target): Rule => ({
    comment: `${owner} ${comment}`,
    ...frontendMatch(frontend, port),
    ...atNode(frontend),
    ...untranslated(frontend),
    target,
  });
  const isMet = isServed(port, frontend.rules);
  const others = `traffic not accepted by ${firewall}`;
  if (isMet && !mayStayAsItIs(port, frontend)) return [rule(others, DROP)];
  const drop = rule(isMet ? others : 'has source ranges and no endpoints', DROP);
  const accepted = isMet ? `traffic accepted by ${firewall}` : 'has no endpoints';
  const ofRanges = (one: Rule): readonly Rule[] =>
    sources.ranges.map((prefix) => ({ ...one, source: { prefix } }));
  return sources.policy === 'deny'
    ? ofRanges(drop)
    : [...ofRanges(rule(accepted, jumpTo('RETURN'))), drop];
}
