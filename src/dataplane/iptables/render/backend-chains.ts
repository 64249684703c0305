// SPDX-License-Identifier: Apache-2.0
// KUBE-SVC- and KUBE-SVL-: choose a backend of a set. KUBE-SEP-: one backend. Both in nat.
import { hostPort } from '../../../lib/address-bytes.ts';
import { hostPrefix } from '../../../lib/ip.ts';
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
 * the time, then the choice: each of n backends with 1/n.
 */
export function setRules(
  port: ServicePortPlan,
  { scope, backends }: RenderedSet,
  { isLargeCluster }: ServiceContext,
  masquerading: readonly Rule[],
): readonly Rule[] {
  const owner = servicePortName(port);
  const seconds = port.affinityTimeoutSeconds;
  const choices = [...port[scope]].map(({ address, port: number }, index) => ({
    chain: backends[index]?.name ?? '',
    named: isLargeCluster ? {} : { comment: `${owner} -> ${hostPort(address, number)}` },
    left: backends.length - index,
  }));
  const remembered = seconds === 0 ? [] : choices;
  return [
    ...masquerading,
    ...remembered.map(({ chain, named }) => ({
      ...named,
      recent: { list: chain, action: { kind: 'check', seconds } } as const,
      target: jumpTo(chain),
    })),
    ...choices.map(({ chain, named, left }) => ({
      ...named,
      ...chance(left),
      target: jumpTo(chain),
    })),
  ];
}

/** One of `left`, with the digits that kube-proxy writes. */
const chance = (left: number): Rule =>
  left === 1 ? {} : { probability: Number((1 / left).toFixed(10)) };

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
    const comment = this.#context.isLargeCluster ? {} : { comment: servicePortName(this.#port) };
    const remember = { recent: { list: this.name, action: { kind: 'set' } } } as const;
    return [
      { ...comment, source: { prefix: hostPrefix(this.#address) }, target: MASQUERADE },
      {
        ...comment,
        ...(affinityTimeoutSeconds > 0 && remember),
        protocol,
        target: { kind: 'dnat', to: hostPort(this.#address, this.#number) },
      },
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
