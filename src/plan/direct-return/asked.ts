// SPDX-License-Identifier: Apache-2.0
// Direct return: which service ports ask for it, and of which frontends.
import type { Forwarding, Protocol } from '../../model/types.ts';
import type { Plan, ServicePlan, ServicePortPlan } from '../types.ts';

/** Protocols of direct return. SCTP never is: its associations name their addresses in packets of their own. */
const DIRECT: Readonly<Record<Forwarding, readonly Protocol[]>> = {
  snat: [],
  dsr: ['TCP', 'UDP'],
  hybrid: ['TCP'],
  ipip: ['TCP', 'UDP'],
};

export const isDirectReturn = (forwarding: Forwarding, protocol: Protocol): boolean =>
  DIRECT[forwarding].includes(protocol);

/** True if some frontend of it is served by direct return where dataplane and nodes can: real servers need no peers. */
export const wantsDirectReturn = ({ frontends }: Pick<ServicePortPlan, 'frontends'>): boolean =>
  frontends.some(({ rules }) => rules.outside.directReturn === true && !rules.outside.ipip);

/** True if some frontend of it sends requests in IPIP. */
export const wantsIpip = ({ frontends }: Pick<ServicePortPlan, 'frontends'>): boolean =>
  frontends.some(({ rules }) => rules.outside.ipip === true);

/** For a plan: `directReturn` are its Services that ask for it. */
export const directReturnFlag = (directReturn: {
  readonly size: number;
}): Pick<Plan, 'wantsDirectReturn'> => (directReturn.size > 0 ? { wantsDirectReturn: true } : {});

export const serviceWantsDirectReturn = ({ ports }: Pick<ServicePlan, 'ports'>): boolean =>
  ports.some(wantsDirectReturn);
