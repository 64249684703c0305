// SPDX-License-Identifier: Apache-2.0
// KUBE-SVC- and KUBE-SVL-: choose a backend of a set. KUBE-SEP-: one backend. Both in nat.
import { hostPort } from '../../../lib/address-bytes.ts';
import { hostPrefix } from '../../../lib/ip.ts';
import { algorithmOf, BALANCING, weightFor } from '../../../plan/decide/balancing.ts';
import type { Backend, Frontend, Scope, ServicePortPlan } from '../../../plan/types.ts';
import { endpointChains, servicePortName } from '../rules/names.ts';
import type { Chain, Rule } from '../rules/types.ts';
import type { ServiceContext } from './settings.ts';
import { jumpTo, MASQUERADE, notFromPods } from './targets.ts';

export interface RenderedSet {
  readonly scope: Scope;
  /** One for each backend, in the order of the set. */
  readonly backends: readonly Chain[];
}

export function renderSet(
  port: ServicePortPlan,
  scope: Scope,
  context: ServiceContext,
): RenderedSet {
  const nameOf = endpointChains(port);
  const backends = port[scope].map(
    (backend) => new BackendChain(nameOf(backend), backend, port, context),
  );
  return { scope, backends };
}

/**
 * First what masquerades the ClusterIP's clients, then, with session affinity, the backend that a client had within
 * the time, then the choice: each backend with its part of the weights that are left, 1/n if all are equal.
 */
export function setRules(
  port: ServicePortPlan,
  { scope, backends }: RenderedSet,
  { isLargeCluster }: ServiceContext,
  masquerading: readonly Rule[],
): readonly Rule[] {
  const owner = servicePortName(port);
  const seconds = port.affinityTimeoutSeconds;
  const remembered: Rule[] = [];
  const chosen: Rule[] = [];
  const algorithm = algorithmOf(port);
  const weightOf = weightFor(algorithm);
  let left = BALANCING[algorithm].isWeighing
    ? port[scope].map(weightOf).reduce((sum, weight) => sum + weight, 0)
    : backends.length;
  let index = 0;
  for (const backend of port[scope]) {
    const { address, port: number } = backend;
    const chain = backends[index]?.name ?? '';
    const weight = weightOf(backend);
    const target = jumpTo(chain);
    const named = isLargeCluster ? {} : { comment: `${owner} -> ${hostPort(address, number)}` };
    chosen.push({ ...named, ...chance(weight, left), target });
    left -= weight;
    index += 1;
    if (seconds === 0) continue;
    const recent = { list: chain, action: { kind: 'check', seconds } } as const;
    remembered.push({ ...named, recent, target });
  }
  return [...masquerading, ...remembered, ...chosen];
}

/** `weight` of `left`, with the digits that kube-proxy writes. */
const chance = (weight: number, left: number): Pick<Rule, 'probability'> =>
  left === weight ? {} : { probability: Number((weight / left).toFixed(10)) };

/** Like a lazy chain, but with what it needs in fields of its own: there are as many as endpoints. */
class BackendChain implements Chain {
  readonly name: string;
  readonly #address: string;
  readonly #number: number;
  readonly #port: ServicePortPlan;
  readonly #context: ServiceContext;

  constructor(name: string, backend: Backend, port: ServicePortPlan, context: ServiceContext) {
    this.name = name;
    this.#address = backend.address;
    this.#number = backend.port;
    this.#port = port;
    this.#context = context;
  }

  /** A backend that is its own client has to be masqueraded: it would answer itself directly otherwise (hairpin). */
  get rules(): readonly Rule[] {
    const { protocol, affinityTimeoutSeconds } = this.#port;
    const hairpin: Rule = { source: { prefix: hostPrefix(this.#address) }, target: MASQUERADE };
    const target = { kind: 'dnat', to: hostPort(this.#address, this.#number) } as const;
    // Most rules of a large cluster.
    if (this.#context.isLargeCluster && affinityTimeoutSeconds === 0) {
      return [hairpin, { protocol, target }];
    }
    const comment = this.#context.isLargeCluster ? {} : { comment: servicePortName(this.#port) };
    const remember = { recent: { list: this.name, action: { kind: 'set' } } } as const;
    return [
      { ...comment, ...hairpin },
      { ...comment, ...(affinityTimeoutSeconds > 0 && remember), protocol, target },
    ];
  }
}

/**
 * In the chain of the ClusterIP's set, for the ClusterIP alone: other frontends lead there, too. All clients
 * (masqueradeAll), or all but pods; the plan gives processes of the node and clients from outside the same rule.
 */
export function clusterIpMasquerading(
  { rules, ...frontend }: Frontend,
  port: ServicePortPlan,
  { detector }: ServiceContext,
): readonly Rule[] {
  if (!rules.outside.masquerade) return [];
  const clients = rules.pod.masquerade || detector === undefined ? {} : notFromPods(detector);
  if (clients === undefined) return [];
  const comment = `${servicePortName(port)} cluster IP`;
  return [{ comment, ...frontendMatch(frontend, port), ...clients, target: MASQUERADE }];
}

/** What is sent to a frontend with an address. */
export const frontendMatch = (
  { address, port: destinationPort }: Pick<Frontend, 'address' | 'port'>,
  { protocol }: Pick<ServicePortPlan, 'protocol'>,
): Rule => ({
  ...(address !== undefined && { destination: { prefix: hostPrefix(address) } }),
  protocol,
  destinationPort,
});
