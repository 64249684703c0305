// SPDX-License-Identifier: Apache-2.0
// Objects as a source delivers them, and settings, for the tests of plans.
import type { ServiceChange } from '../../../src/plan/conntrack/stale-flows.ts';
import type { PlanSettings } from '../../../src/plan/types.ts';
import {
  clusterIp,
  nodeObject,
  type Put,
  put,
  readyEndpoint,
  serviceObject,
  sliceMetadata,
  sliceObject,
} from '../../support/objects.ts';
import type { PlanChange } from '../../support/plan/planner.ts';

export const SETTINGS: PlanSettings = {
  nodeName: 'n1',
  detectLocalMode: 'ClusterCIDR',
  clusterCidrs: ['10.1.0.0/16'],
  masqueradeAll: false,
  nodePortAddresses: [],
  allowExternalIps: true,
};

/** A Service with ClusterIP 10.96.0.`number`; `rest` are its other sections. */
export function service(
  name: string,
  number: number,
  spec: object = {},
  { metadata, ...rest }: { readonly metadata?: object; readonly status?: object } = {},
): Put {
  const sections = { metadata: { name, ...metadata }, ...rest };
  return put(serviceObject(name, { ...clusterIp(`10.96.0.${number}`), ...spec }, sections));
}

export const ready = (address: string, nodeName = 'n1') => readyEndpoint(address, nodeName);

export const slice = (owner: string, endpoints: readonly object[], patch: object = {}): Put =>
  put(sliceObject(owner, endpoints, { metadata: sliceMetadata(owner, `${owner}-1`), ...patch }));

export const node = (
  name: string,
  address: string,
  {
    metadata = {},
    ...rest
  }: { readonly metadata?: object; readonly [section: string]: unknown } = {},
): Put =>
  put(
    nodeObject(name, {
      metadata: { name, ...metadata },
      status: { addresses: [{ type: 'InternalIP', address }] },
      ...rest,
    }),
  );

/** What one build changed, by Service. */
export const changesIn = ({ plan, changed, previous }: PlanChange): readonly ServiceChange[] =>
  changed.map((key) => ({ before: previous.get(key), after: plan.services.get(key) }));
