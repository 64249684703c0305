// SPDX-License-Identifier: Apache-2.0
// How requests from outside go to backends of other nodes: by default masqueraded.
import type { Forwarding } from '../../model/types.ts';
import type { Frontend, ServicePortPlan } from '../types.ts';

/** Those that a node may have as default, in the order in which people see them: only a Service can know that its endpoints unwrap IPIP. */
export const FORWARDING_NAMES = ['snat', 'dsr', 'hybrid'] as const satisfies readonly Forwarding[];

export const forwardingOf = ({ forwarding }: Pick<ServicePortPlan, 'forwarding'>): Forwarding =>
  forwarding ?? 'snat';

/** Whether its requests from outside may have to go to other nodes at all. */
export const isForwarded = ({ kind, rules }: Pick<Frontend, 'kind' | 'rules'>): boolean =>
  kind !== 'ClusterIP' && rules.outside.masquerade;
