// SPDX-License-Identifier: Apache-2.0
// Direct return: which service ports ask for it, and of which frontends.
import type { Forwarding, Protocol } from '../../model/types.ts';
import type { Frontend, Plan, ServicePlan, ServicePortPlan } from '../types.ts';

/** Protocols of direct return. SCTP never is: its associations name their addresses in packets of their own. */
const DIRECT: Readonly<Record<Forwarding, readonly Protocol[]>> = {
  snat: [],
  dsr: ['TCP', 'UDP'],
  hybrid: ['TCP'],
};

/** In the order in which people see them. */
export const FORWARDING_NAMES = Object.keys(DIRECT) as [Forwarding, ...Forwarding[]];

export const isDirectReturn = (forwarding: Forwarding, protocol: Protocol): boolean =>
  DIRECT[forwarding].includes(protocol);

export const forwardingOf = ({ forwarding }: Pick<ServicePortPlan, 'forwarding'>): Forwarding =>
  forwarding ?? 'snat';

/** Whether its requests from outside may have to go to other nodes at all. */
export const isForwarded = ({ kind, rules }: Pick<Frontend, 'kind' | 'rules'>): boolean =>
  kind !== 'ClusterIP' && rules.outside.masquerade;

/** True if some frontend of it is served by direct return where dataplane and nodes can. */
export const wantsDirectReturn = ({ frontends }: Pick<ServicePortPlan, 'frontends'>): boolean =>
  frontends.some(({ rules }) => rules.outside.directReturn === true);

/** For a plan: `directReturn` are its Services that ask for it. */
export const directReturnFlag = (directReturn: {
  readonly size: number;
}): Pick<Plan, 'wantsDirectReturn'> => (directReturn.size > 0 ? { wantsDirectReturn: true } : {});

export const serviceWantsDirectReturn = ({ ports }: Pick<ServicePlan, 'ports'>): boolean =>
  ports.some(wantsDirectReturn);
