// SPDX-License-Identifier: Apache-2.0
// What dataplanes have programmed, beside what the plan wants: one frontend at a time. Views and proofs use it.
import { hostPort } from '../lib/address-bytes.ts';
import { CLIENT_POSITIONS } from '../plan/decide/traffic-rules.ts';
import type { BackendList, Frontend, ServicePortPlan } from '../plan/types.ts';
import { type Capabilities, servingDataplanes } from './capabilities.ts';
import { type FrontendId, frontendKeyText } from './entry.ts';
import type { FrontendView } from './snapshot.ts';

/** One view of each dataplane that has programmed it. */
export function byFrontend(kernel: Iterable<FrontendView>): Map<string, FrontendView[]> {
  const frontends = new Map<string, FrontendView[]>();
  for (const view of kernel) {
    const key = frontendKeyText(view.id);
    const views = frontends.get(key);
    if (views === undefined) frontends.set(key, [view]);
    else views.push(view);
  }
  return frontends;
}

export const idOf = (
  { address, port }: Pick<Frontend, 'address' | 'port'>,
  { family, protocol }: ServicePortPlan,
): FrontendId => ({
  family,
  address,
  port,
  protocol,
});

export const namesOf = (backends: BackendList): readonly string[] =>
  backends.map(({ address, port }) => hostPort(address, port));

/** The kernel orders a set by backend id, the plan by address. */
const hasSame = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && [...a].sort().join() === [...b].sort().join();

export interface Programmed {
  readonly dataplanes: readonly Capabilities[];
  readonly views: readonly FrontendView[];
}

/** As KernelState of the views says it. */
export type PlannedState = 'ok' | 'missing' | 'stale' | 'extra' | 'not-served';

export function plannedState(
  port: ServicePortPlan,
  frontend: Frontend,
  { dataplanes, views }: Programmed,
): PlannedState {
  const serving = servingDataplanes(dataplanes, port, frontend);
  if (serving.size === 0) return 'not-served';
  const held = views.filter(({ dataplane }) => serving.has(dataplane));
  if (held.length < serving.size) return 'missing';
  const { host, outside } = frontend.rules;
  const isStale = ({ internal, external }: FrontendView): boolean =>
    !hasSame(namesOf(port[host.scope]), internal) ||
    !hasSame(namesOf(port[outside.scope]), external);
  if (held.some(isStale)) return 'stale';
  // A ClusterIP may be there for packets too, though nobody outside is meant to use it.
  const allowed = servingDataplanes(dataplanes, port, frontend, CLIENT_POSITIONS);
  return views.every(({ dataplane }) => allowed.has(dataplane)) ? 'ok' : 'extra';
}
