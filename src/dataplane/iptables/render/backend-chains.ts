// SPDX-License-Identifier: Apache-2.0
// KUBE-SVC- and KUBE-SVL-: choose a backend of a set. KUBE-SEP-: one backend. Both in nat.
import { hostPort } from '../../../lib/address-bytes.ts';
import { hostPrefix } from '../../../lib/ip.ts';
import type { Backend, Frontend, Scope, ServicePortPlan } from '../../../plan/types.ts';
import { endpointChain, servicePortName } from '../rules/names.ts';
import type { Chain, Rule } from '../rules/types.ts';
import type { ServiceContext } from './settings.ts';
import { jumpTo, MASQUERADE, notFromPods } from './targets.ts';

/** A backend, the name of its chain, and how comments name it. */
export interface NamedBackend {
  readonly backend: Backend;
  readonly chain: string;
  readonly text: string;
}

export const namedBackends = (port: ServicePortPlan, scope: Scope): readonly NamedBackend[] =>
  port[scope].map((backend) => ({
    backend,
    chain: endpointChain(port, backend),
    text: hostPort(backend.address, backend.port),
  }));

/**
 * First what masquerades the ClusterIP's clients, then, with session affinity, the backend that a client had within
 * the time, then the choice: each of n backends with 1/n.
 */
export function setChain(
  name: string,
  port: ServicePortPlan,
  backends: readonly NamedBackend[],
  { isLargeCluster }: Pick<ServiceContext, 'isLargeCluster'>,
  masquerading: readonly Rule[],
): Chain {
  const owner = servicePortName(port);
  const named = (text: string): Rule => (isLargeCluster ? {} : { comment: `${owner} -> ${text}` });
  const seconds = port.affinityTimeoutSeconds;
  const remembered = seconds === 0 ? [] : backends;
  return {
    name,
    rules: [
      ...masquerading,
      ...remembered.map(({ chain, text }) => ({
        ...named(text),
        recent: { list: chain, action: { kind: 'check', seconds } } as const,
        target: jumpTo(chain),
      })),
      ...backends.map(({ chain, text }, index) => ({
        ...named(text),
        ...chance(backends.length - index),
        target: jumpTo(chain),
      })),
    ],
  };
}

/** One of `left`, with the digits that kube-proxy writes. */
const chance = (left: number): Rule =>
  left === 1 ? {} : { probability: Number((1 / left).toFixed(10)) };

/** A backend that is its own client has to be masqueraded: it would answer itself directly otherwise (hairpin). */
export function backendChain(
  { backend, chain, text }: NamedBackend,
  port: ServicePortPlan,
  { isLargeCluster }: Pick<ServiceContext, 'isLargeCluster'>,
): Chain {
  const comment = isLargeCluster ? {} : { comment: servicePortName(port) };
  const remember = { recent: { list: chain, action: { kind: 'set' } } } as const;
  return {
    name: chain,
    rules: [
      { ...comment, source: { prefix: hostPrefix(backend.address) }, target: MASQUERADE },
      {
        ...comment,
        ...(port.affinityTimeoutSeconds > 0 && remember),
        protocol: port.protocol,
        target: { kind: 'dnat', to: text },
      },
    ],
  };
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
  const spared = rules.pod.masquerade || detector === undefined ? {} : notFromPods(detector);
  const comment = `${servicePortName(port)} cluster IP`;
  return [{ comment, ...frontendMatch(frontend, port), ...spared, target: MASQUERADE }];
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
