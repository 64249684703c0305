// SPDX-License-Identifier: Apache-2.0
// Whether the kernel has what the API says: the plan of an independent list beside a reading of the maps or rules. Pure.
import type { Capabilities } from '../engines/capabilities.ts';
import { frontendKeyText, frontendText } from '../engines/entry.ts';
import { byFrontend, idOf, namesOf, plannedState } from '../engines/programmed.ts';
import type { FrontendView } from '../engines/snapshot.ts';
import type { Frontend, Plan, ServiceKey, ServicePlan, ServicePortPlan } from '../plan/types.ts';

/** The first difference of each Service that has one. */
export type Differences = ReadonlyMap<ServiceKey, string>;

export interface Sides {
  readonly plan: Plan;
  readonly views: Iterable<FrontendView>;
  /** Those composed, in order. */
  readonly dataplanes: readonly Capabilities[];
}

/** In small steps, in which the plan does not change. */
export function* differencesInSteps({
  plan,
  views,
  dataplanes,
}: Sides): Generator<void, Differences> {
  const held = byFrontend(views);
  const found = new Map<ServiceKey, string>();
  const note = (service: ServiceKey, what: string): void => {
    if (!found.has(service)) found.set(service, what);
  };
  for (const [key, service] of plan.services) {
    for (const [port, frontend] of frontendsOf(service)) {
      const id = frontendKeyText(idOf(frontend, port));
      const what = differenceOf(port, frontend, held.get(id) ?? [], dataplanes);
      held.delete(id);
      if (what !== undefined) note(key, what);
    }
    yield;
  }
  for (const [view] of held.values()) {
    if (view === undefined) continue;
    const { namespace, name } = view.port;
    note(`${namespace}/${name}`, `${textOf(view)} is programmed, but no Service has it`);
  }
  return found;
}

function* frontendsOf({ ports }: ServicePlan): Generator<readonly [ServicePortPlan, Frontend]> {
  for (const port of ports) for (const frontend of port.frontends) yield [port, frontend];
}

const textOf = ({ id }: Pick<FrontendView, 'id'>): string =>
  `${id.family} frontend ${frontendText(id)}`;

function differenceOf(
  port: ServicePortPlan,
  frontend: Frontend,
  views: readonly FrontendView[],
  dataplanes: readonly Capabilities[],
): string | undefined {
  const frontendName = textOf({ id: idOf(frontend, port) });
  const state = plannedState(port, frontend, { dataplanes, views });
  if (state === 'missing') return `${frontendName} is missing`;
  if (state === 'stale')
    return `${frontendName} has other backends: ${setsText(port, frontend, views)}`;
  if (state === 'extra')
    return `${frontendName} is programmed by an engine that is not to serve it`;
  const other = views.find((view) => !isOf(view, port));
  if (other !== undefined)
    return `${frontendName} belongs to ${other.port.namespace}/${other.port.name}`;
  const wanted = port.affinityTimeoutSeconds;
  const view = views.find(({ affinitySeconds }) => affinitySeconds !== wanted);
  return (
    view && `${frontendName} has session affinity of ${view.affinitySeconds} s, not ${wanted} s`
  );
}

const isOf = (
  { port: { namespace, name, portName } }: FrontendView,
  port: ServicePortPlan,
): boolean => namespace === port.namespace && name === port.name && portName === port.portName;

/** Of a long list the first differences are enough to look. */
const NAMED = 5;

function setsText(
  port: ServicePortPlan,
  { rules }: Frontend,
  views: readonly FrontendView[],
): string {
  const parts: string[] = [];
  for (const { internal, external } of views) {
    for (const [scope, held] of [
      [rules.host.scope, internal],
      [rules.outside.scope, external],
    ] as const) {
      const wanted = new Set(namesOf(port[scope]));
      const kept = new Set(held);
      parts.push(
        ...some(
          'lacks',
          [...wanted].filter((one) => !kept.has(one)),
        ),
        ...some(
          'has too many',
          held.filter((one) => !wanted.has(one)),
        ),
      );
    }
  }
  return [...new Set(parts)].join('; ') || 'one of them twice';
}

function some(what: string, backends: readonly string[]): readonly string[] {
  if (backends.length === 0) return [];
  const more = backends.length - NAMED;
  const names = backends.toSorted().slice(0, NAMED).join(', ');
  return [`${what} ${names}${more > 0 ? ` + ${more} more...` : ''}`];
}
