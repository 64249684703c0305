// SPDX-License-Identifier: Apache-2.0
// One service port -> its chains and its rules in shared chains. The plan has decided all policy.

import { canonicalPrefix, familyOf, hostPrefix, prefixContains } from '../../../lib/ip.ts';
import type { Frontend, Scope, ServicePortPlan } from '../../../plan/types.ts';
import type { ServiceChains } from '../../rules/chains.ts';
import { isServed, type TrafficRules } from '../../rules/served.ts';
import { serviceChains, servicePortName } from '../rules/names.ts';
import type { Chain, Rule } from '../rules/types.ts';
import { clusterIpMasquerading, frontendMatch, renderSet, setRules } from './backend-chains.ts';
import { externalRules, sourceRules } from './external-chains.ts';
import type { Fragment } from './fragment.ts';
import { refusalRules } from './refusals.ts';
import type { ServiceContext } from './settings.ts';
import { jumpTo, REJECT } from './targets.ts';

/** All frontends for clients from outside have the same traffic rules, all filtered ones the same sources. */
interface Parts {
  readonly port: ServicePortPlan;
  readonly chains: ServiceChains;
  readonly clusterIp: Frontend | undefined;
  readonly external: readonly Frontend[];
}

export function renderPort(
  port: ServicePortPlan,
  context: ServiceContext,
): Omit<Fragment, 'healthChecks'> {
  const parts: Parts = {
    port,
    chains: serviceChains(port),
    clusterIp: port.frontends.find(({ kind }) => kind === 'ClusterIP'),
    external: port.frontends.filter(({ kind }) => kind !== 'ClusterIP'),
  };
  const served = port.frontends.filter(({ rules }) => isServed(port, rules));
  return {
    chains: ownChains(parts, context),
    services: served.flatMap((frontend) => serviceRule(parts, frontend)),
    nodePorts: served.flatMap((frontend) => nodePortRules(parts, frontend, context)),
    ...otherPorts(port, context),
    ...refusalRules(port, parts.chains),
  };
}

const usedScopes = ({ pod, host, outside }: TrafficRules): readonly Scope[] =>
  [pod, host, outside].map(({ scope }) => scope);

/** KUBE-EXT-, KUBE-FW-, KUBE-SVC-, KUBE-SVL- and KUBE-SEP-, those that are used. */
function ownChains(parts: Parts, context: ServiceContext): readonly Chain[] {
  const { port, chains, external, clusterIp } = parts;
  const rules = external[0]?.rules;
  const { sources } = port;
  const isOpen = rules !== undefined && isServed(port, rules);
  const scopes = new Set([
    ...(clusterIp === undefined ? [] : usedScopes(clusterIp.rules)),
    ...(rules === undefined ? [] : usedScopes(rules)),
  ]);
  const sets = (['cluster', 'local'] as const)
    .filter((scope) => scopes.has(scope) && port[scope].length > 0)
    .map((scope) => renderSet(port, scope, context));
  const masquerading = (scope: Scope): readonly Rule[] =>
    clusterIp?.rules.outside.scope === scope ? clusterIpMasquerading(clusterIp, port, context) : [];
  return [
    ...(isOpen
      ? [lazyChain(chains.external, () => externalRules(chains, port, rules, context))]
      : []),
    ...(isOpen && sources !== undefined
      ? [lazyChain(chains.firewall, () => sourceRules(chains, port, sources))]
      : []),
    ...sets.map((set) =>
      lazyChain(chains[set.scope], () => setRules(port, set, context, masquerading(set.scope))),
    ),
    ...distinct(sets.flatMap(({ backends }) => backends)),
  ];
}

/** Both sets may have a backend. */
function distinct(chains: readonly Chain[]): readonly Chain[] {
  return [...new Map(chains.map((chain) => [chain.name, chain])).values()];
}

const KIND_TEXT = {
  ClusterIP: 'cluster IP',
  ExternalIP: 'external IP',
  LoadBalancer: 'loadbalancer IP',
} as const;

/** Where clients of an address that is no ClusterIP begin. */
const entryOf = ({ external, firewall }: ServiceChains, { isFiltered }: Frontend): string =>
  isFiltered ? firewall : external;

function serviceRule({ port, chains }: Parts, frontend: Frontend): readonly Rule[] {
  const { kind, rules } = frontend;
  if (kind === 'NodePort') return [];
  return [
    {
      comment: `${servicePortName(port)} ${KIND_TEXT[kind]}`,
      ...frontendMatch(frontend, port),
      target: jumpTo(
        kind === 'ClusterIP' ? chains[rules.outside.scope] : entryOf(chains, frontend),
      ),
    },
  ];
}

function nodePortRules(
  { port, chains }: Parts,
  frontend: Frontend,
  { countsLocalhostNodePorts }: ServiceContext,
): readonly Rule[] {
  if (frontend.kind !== 'NodePort') return [];
  const comment = servicePortName(port);
  const target = jumpTo(entryOf(chains, frontend));
  const match = frontendMatch(frontend, port);
  const counted: Rule = {
    comment,
    destination: { prefix: '127.0.0.0/8' },
    ...match,
    accounting: 'localhost_nps_accepted_pkts',
    target,
  };
  return [...(countsLocalhostNodePorts ? [counted] : []), { comment, ...match, target }];
}

/** What a Service serves has another destination by now. kube-proxy lets the rest follow the routes. */
function otherPorts(
  { namespace, name, refusesOtherPortsOf: address }: ServicePortPlan,
  { serviceCidrs }: ServiceContext,
): Pick<Fragment, 'clusterIps' | 'strayClusterIps' | 'strayRanges'> {
  if (address === undefined) return { clusterIps: [], strayClusterIps: [], strayRanges: [] };
  const rules: readonly Rule[] = [
    {
      comment: `${namespace}/${name} has no such port`,
      destination: { prefix: hostPrefix(address) },
      target: REJECT,
    },
  ];
  return serviceCidrs.some((cidr) => prefixContains(cidr, address))
    ? { clusterIps: rules, strayClusterIps: [], strayRanges: [] }
    : { clusterIps: [], strayClusterIps: rules, strayRanges: [rangeAround(address)] };
}

/** API servers before 1.33 have no ServiceCIDRs; their ranges are seldom larger than a /16, and of IPv6 than a /108. */
const rangeAround = (address: string): string =>
  canonicalPrefix(`${address}/${familyOf(address) === 'IPv4' ? 16 : 108}`) ?? hostPrefix(address);

// A chain whose rules are made each time they are asked for. Of a large cluster the renderer keeps a hundred thousand
// chains to tell which ones did not change; with their rules they would weigh four times as much.
class LazyChain implements Chain {
  readonly name: string;
  readonly #rules: () => readonly Rule[];

  constructor(name: string, rules: () => readonly Rule[]) {
    this.name = name;
    this.#rules = rules;
  }

  get rules(): readonly Rule[] {
    return this.#rules();
  }
}

/** @param rules pure */
const lazyChain = (name: string, rules: () => readonly Rule[]): Chain => new LazyChain(name, rules);
