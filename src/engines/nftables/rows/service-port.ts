// SPDX-License-Identifier: Apache-2.0
// One service port -> its chains, and its elements of the maps that lead to them. The plan has decided all policy.

import type { Frontend, Scope, ServicePortPlan, TrafficRule } from '../../../plan/types.ts';
import type { ServiceChains } from '../../rules/chains.ts';
import { emptyVerdict, isFilled, isServed, type TrafficRules } from '../../rules/served.ts';
import {
  CLUSTER_IPS,
  FIREWALL_IPS,
  FIREWALL_NODEPORTS,
  NO_ENDPOINT_NODEPORTS,
  NO_ENDPOINT_SERVICES,
  OPEN_CLUSTER_IPS,
  REJECT_CHAIN,
  SERVICE_IPS,
  SERVICE_NODEPORTS,
  serviceChains,
  servicePortComment,
} from '../rules/names.ts';
import type { Element, Fragment } from '../rules/types.ts';
import { rangeRules } from './firewall.ts';
import { fromPods, joinRules, markRule, type RenderContext } from './match.ts';
import { renderSet } from './sets.ts';

export function renderPort(port: ServicePortPlan, context: RenderContext): Fragment {
  const chains = serviceChains(port);
  const clusterIp = port.frontends.find(({ kind }) => kind === 'ClusterIP');
  // All frontends for clients from outside have the same traffic rules, all filtered ones the same sources.
  const external = port.frontends.find(({ kind }) => kind !== 'ClusterIP')?.rules;
  const isOpen = external !== undefined && isServed(port, external);
  const sets = usedScopes(port, clusterIp?.rules, external).map((scope) =>
    renderSet(port, scope, chains[scope], context),
  );
  for (const scope of SCOPES) {
    if (!sets.some((set) => set.name === chains[scope])) context.blocks.release(chains[scope]);
  }
  const isFirewalled = port.sources !== undefined && port.frontends.some((one) => one.isFiltered);
  return {
    chains: [
      ...(isOpen
        ? [[chains.external, externalRules(chains, port, external, context)] as const]
        : []),
      ...(isFirewalled && port.sources !== undefined
        ? [[chains.firewall, rangeRules(port.sources, port.family)] as const]
        : []),
      ...sets.map(({ name, rules }) => [name, rules] as const),
      ...new Map(sets.flatMap(({ endpoints }) => endpoints)),
    ],
    sets: [...new Map(sets.flatMap(({ affinity }) => affinity))],
    elements: [
      ...port.frontends.flatMap((frontend) => frontendElements(port, frontend, chains)),
      ...clusterIpElements(port, clusterIp),
      ...sets.flatMap(({ elements }) => elements),
    ],
    maps: sets.flatMap(({ maps }) => maps),
    hairpins: hairpinKeys(port),
    masquerades: masqueradesOf(clusterIp?.rules),
  };
}

const SCOPES: readonly Scope[] = ['cluster', 'local'];

function usedScopes(
  port: ServicePortPlan,
  ...all: readonly (TrafficRules | undefined)[]
): readonly Scope[] {
  const used = new Set(
    all.flatMap((rules) =>
      rules === undefined ? [] : [rules.pod.scope, rules.host.scope, rules.outside.scope],
    ),
  );
  return SCOPES.filter((scope) => used.has(scope) && port[scope].length > 0);
}

function masqueradesOf(rules: TrafficRules | undefined): Fragment['masquerades'] {
  if (rules?.outside.masquerade !== true) return 'nobody';
  return rules.pod.masquerade ? 'everyone' : 'others';
}

/** A backend that is its own client would answer itself directly. Of other nodes' backends: the limit HAIRPIN. */
const hairpinKeys = (port: ServicePortPlan): readonly string[] => {
  const protocol = port.protocol.toLowerCase();
  const local = [...port.cluster, ...port.local].filter(({ isLocal }) => isLocal);
  return [
    ...new Set(
      local.map(({ address, port: number }) => `${address} . ${address} . ${protocol} . ${number}`),
    ),
  ];
};

/** `10.96.0.10 . tcp . 80`, of a NodePort `tcp . 30080`. */
function keyOf({ address, port: number }: Frontend, { protocol }: ServicePortPlan): string {
  const end = `${protocol.toLowerCase()} . ${number}`;
  return address === undefined ? end : `${address} . ${end}`;
}

function frontendElements(
  port: ServicePortPlan,
  frontend: Frontend,
  chains: ServiceChains,
): readonly Element[] {
  const { kind, rules, isFiltered } = frontend;
  const isNodePort = kind === 'NodePort';
  const key = keyOf(frontend, port);
  const entry = kind === 'ClusterIP' ? chains[rules.outside.scope] : chains.external;
  const refused = emptyVerdict(port, frontend);
  const found: Element[] = [];
  if (isServed(port, rules)) {
    const set = isNodePort ? SERVICE_NODEPORTS : SERVICE_IPS;
    found.push({ set, key, value: ` : goto ${entry}` });
  }
  if (refused !== undefined) {
    const set = isNodePort ? NO_ENDPOINT_NODEPORTS : NO_ENDPOINT_SERVICES;
    const verdict = refused === 'drop' ? 'drop' : `goto ${REJECT_CHAIN}`;
    found.push({ set, key, value: ` comment "${servicePortComment(port)}" : ${verdict}` });
  }
  if (isFiltered === true && port.sources !== undefined) {
    const set = isNodePort ? FIREWALL_NODEPORTS : FIREWALL_IPS;
    found.push({ set, key, value: ` : goto ${chains.firewall}` });
  }
  return found;
}

function clusterIpElements(
  { namespace, name, refusesOtherPortsOf: refusing }: ServicePortPlan,
  clusterIp: Frontend | undefined,
): readonly Element[] {
  const value = ` comment "${`${namespace}/${name}`.slice(0, 128)}"`;
  const address = clusterIp?.address;
  return [
    ...(refusing === undefined ? [] : [{ set: CLUSTER_IPS, key: refusing, value }]),
    ...(address === undefined || address === refusing
      ? []
      : [{ set: OPEN_CLUSTER_IPS, key: address, value }]),
  ];
}

const areEqual = (one: TrafficRule, other: TrafficRule): boolean =>
  one.scope === other.scope && one.masquerade === other.masquerade;

/** Positions are matched in their order: pods, processes of the node, everyone else. */
function externalRules(
  chains: ServiceChains,
  port: ServicePortPlan,
  { pod, host, outside }: TrafficRules,
  { detector, family, mark }: RenderContext,
): string {
  const rulesFor = (match: string, rule: TrafficRule, who: string): readonly string[] => [
    ...(rule.masquerade ? [`${match}${markRule(mark)} comment "masquerade ${who}"`] : []),
    ...(isFilled(port, rule) ? [`${match}goto ${chains[rule.scope]}`] : []),
  ];
  if (areEqual(pod, outside) && areEqual(host, outside))
    return joinRules(rulesFor('', outside, 'all clients'));
  return joinRules([
    ...(detector === undefined ? [] : rulesFor(`${fromPods(detector, family)} `, pod, 'pods')),
    ...rulesFor('fib saddr type local ', host, 'processes of the node'),
    ...rulesFor('', outside, 'clients from outside'),
  ]);
}
