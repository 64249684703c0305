// SPDX-License-Identifier: Apache-2.0
// What `fairlead services` and `backends` show: desired versus programmed state, row by row, which rows
// differ, and what no dataplane serves.

import type { BackendView, FrontendView } from '../dataplane/bpf/inspect/view.ts';
import { frontendText, setNames } from '../dataplane/bpf/sync/render.ts';
import { DATAPLANES, originsOf, servedBy, unservedTexts } from '../dataplane/capabilities.ts';
import { hostPort } from '../lib/address-bytes.ts';
import type { TrafficPolicy } from '../model/types.ts';
import type { Frontend, Plan, ServicePlan, ServicePortPlan } from '../plan/types.ts';

/**
 * ok: in sync with the plan · missing: planned, not programmed · stale: programmed with other backends ·
 * extra: programmed, not planned · not-served: no dataplane can serve it to anyone · unknown: no agent
 * runs, so nothing says what is desired.
 */
export type KernelState = 'ok' | 'missing' | 'stale' | 'extra' | 'not-served' | 'unknown';

export interface ServiceRow {
  readonly namespace: string;
  readonly name: string;
  readonly port: string;
  readonly type: string;
  readonly kind: string;
  readonly frontend: string;
  readonly family: string;
  /** `app=web,tier=front`; '' = none, or no agent runs. */
  readonly labels: string;
  /** undefined: the Service has no such frontends, or no agent runs. */
  readonly internalTrafficPolicy: TrafficPolicy | undefined;
  readonly externalTrafficPolicy: TrafficPolicy | undefined;
  readonly affinitySeconds: number;
  /** Backends of clients on this node, sorted; empty where the plan or the kernel has no such frontend. */
  readonly desired: readonly string[];
  readonly kernel: readonly string[];
  /** The same of clients from outside. */
  readonly externalDesired: readonly string[];
  readonly externalKernel: readonly string[];
  /** Endpoints that still serve while they terminate. */
  readonly terminating: readonly string[];
  readonly kernelState: KernelState;
  /** `not served by bpf: packets from outside`: empty if everyone who is meant to reach it does. */
  readonly limits: readonly string[];
  readonly connections: number;
  readonly refused: number;
  readonly dropped: number;
  readonly affinityHits: number;
}

export interface BackendRow {
  readonly namespace: string;
  readonly name: string;
  readonly port: string;
  readonly backend: string;
  readonly family: string;
  /** Of its Service. */
  readonly labels: string;
  readonly isDesired: boolean;
  readonly kernelState: KernelState;
  readonly state: string;
  readonly isLocal: boolean;
  readonly connections: number;
  readonly open: number;
  readonly id: number;
  readonly generation: number;
}

const split = (service: string): { namespace: string; name: string } => {
  const slash = service.indexOf('/');
  return { namespace: service.slice(0, slash), name: service.slice(slash + 1) };
};

/** `default/web:http/TCP/IPv4` -> `http`. */
const portName = (portKey: string): string => /:([^/]*)\//.exec(portKey)?.[1] ?? '';

const byName = (a: { row: string }, b: { row: string }): number =>
  a.row < b.row ? -1 : a.row > b.row ? 1 : 0;

function sorted<T>(rows: readonly T[], text: (row: T) => string): readonly T[] {
  return rows
    .map((value) => ({ value, row: text(value) }))
    .sort(byName)
    .map(({ value }) => value);
}

/** @param plan undefined when no agent runs */
export function serviceRows(
  plan: Plan | undefined,
  kernel: Iterable<FrontendView>,
): readonly ServiceRow[] {
  const held = new Map([...kernel].map((view) => [`${view.family} ${view.frontend}`, view]));
  const rows: ServiceRow[] = [];
  for (const service of plan?.services.values() ?? []) {
    for (const port of service.ports) {
      for (const frontend of port.frontends) {
        const id = `${port.family} ${textOf(frontend, port)}`;
        rows.push(plannedRow(service, port, frontend, held.get(id)));
        held.delete(id);
      }
    }
  }
  for (const view of held.values()) rows.push(kernelOnlyRow(view, plan !== undefined));
  return sorted(rows, (row) => `${row.namespace}/${row.name} ${row.family} ${row.frontend}`);
}

const textOf = (frontend: Frontend, port: ServicePortPlan): string =>
  frontendText({
    family: port.family,
    address: frontend.address,
    port: frontend.port,
    protocol: port.protocol,
  });

/** The kernel keeps a set in the order of its ids, the plan in that of addresses. */
const hasSame = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && [...a].sort().join() === [...b].sort().join();

function plannedRow(
  service: ServicePlan,
  port: ServicePortPlan,
  frontend: Frontend,
  view: FrontendView | undefined,
): ServiceRow {
  const { host, outside } = frontend.paths;
  return {
    namespace: service.namespace,
    name: service.name,
    port: port.portName,
    type: service.type,
    kind: frontend.kind,
    frontend: textOf(frontend, port),
    family: port.family,
    labels: service.labels ?? '',
    ...policiesOf(port),
    affinitySeconds: port.affinityTimeoutSeconds,
    desired: setNames(port, host.scope),
    kernel: view?.internal.toSorted() ?? [],
    externalDesired: setNames(port, outside.scope),
    externalKernel: view?.external.toSorted() ?? [],
    terminating: terminatingOf(port),
    kernelState: plannedState(port, frontend, view),
    limits: unservedTexts(DATAPLANES, port, frontend),
    ...countersOf(view),
  };
}

function plannedState(
  port: ServicePortPlan,
  frontend: Frontend,
  view: FrontendView | undefined,
): KernelState {
  const isServed = originsOf(frontend).some(
    (origin) => servedBy(DATAPLANES, port, frontend, origin).dataplane !== undefined,
  );
  if (!isServed) return 'not-served';
  if (view === undefined) return 'missing';
  const { host, outside } = frontend.paths;
  return hasSame(setNames(port, host.scope), view.internal) &&
    hasSame(setNames(port, outside.scope), view.external)
    ? 'ok'
    : 'stale';
}

/** As the paths of the port's frontends show them: a policy without a frontend decides nothing. */
function policiesOf({
  frontends,
}: ServicePortPlan): Pick<ServiceRow, 'internalTrafficPolicy' | 'externalTrafficPolicy'> {
  const policy = (frontend: Frontend | undefined): TrafficPolicy | undefined =>
    frontend && (frontend.paths.outside.scope === 'local' ? 'Local' : 'Cluster');
  return {
    internalTrafficPolicy: policy(frontends.find(({ kind }) => kind === 'ClusterIP')),
    externalTrafficPolicy: policy(frontends.find(({ kind }) => kind !== 'ClusterIP')),
  };
}

const terminatingOf = ({ serving }: ServicePortPlan): readonly string[] =>
  [...serving]
    .filter(({ isTerminating }) => isTerminating)
    .map(({ address, port }) => hostPort(address, port));

function kernelOnlyRow(view: FrontendView, hasPlan: boolean): ServiceRow {
  return {
    ...split(view.service),
    port: portName(view.port),
    type: '',
    kind: '',
    frontend: view.frontend,
    family: view.family,
    labels: '',
    internalTrafficPolicy: undefined,
    externalTrafficPolicy: undefined,
    affinitySeconds: view.affinitySeconds,
    desired: [],
    kernel: view.internal.toSorted(),
    externalDesired: [],
    externalKernel: view.external.toSorted(),
    terminating: [],
    kernelState: hasPlan ? 'extra' : 'unknown',
    limits: [],
    ...countersOf(view),
  };
}

const countersOf = (view: FrontendView | undefined) => ({
  connections: view?.connections ?? 0,
  refused: view?.refused ?? 0,
  dropped: view?.dropped ?? 0,
  affinityHits: view?.affinityHits ?? 0,
});

export function backendRows(
  plan: Plan | undefined,
  kernel: Iterable<BackendView>,
): readonly BackendRow[] {
  const wanted = new Map<string, { readonly port: ServicePortPlan; readonly isLocal: boolean }>();
  for (const service of plan?.services.values() ?? []) {
    for (const port of service.ports) {
      if (port.frontends.length === 0) continue;
      for (const { address, port: number, isLocal } of [...port.cluster, ...port.local]) {
        wanted.set(`${port.key} ${hostPort(address, number)}`, { port, isLocal });
      }
    }
  }
  const rows: BackendRow[] = [];
  for (const view of kernel) {
    const isWanted = wanted.delete(`${view.port} ${view.backend}`);
    const labels = plan?.services.get(view.service)?.labels ?? '';
    rows.push(heldRow(view, labels, plan === undefined ? undefined : isWanted));
  }
  for (const [id, { port, isLocal }] of wanted) {
    const labels = plan?.services.get(`${port.namespace}/${port.name}`)?.labels ?? '';
    rows.push(missingRow(id, port, { labels, isLocal }));
  }
  return sorted(
    rows,
    (row) => `${row.namespace}/${row.name} ${row.port} ${row.family} ${row.backend}`,
  );
}

function heldRow(view: BackendView, labels: string, isWanted: boolean | undefined): BackendRow {
  const { service, port, ...rest } = view;
  return {
    ...split(service),
    port: portName(port),
    ...rest,
    labels,
    isDesired: isWanted ?? false,
    kernelState: backendState(view, isWanted),
  };
}

/** A terminating backend is in no set and yet wanted there: sockets on it still use it. */
function backendState(view: BackendView, isWanted: boolean | undefined): KernelState {
  if (isWanted === undefined) return 'unknown';
  if (isWanted) return view.state === 'active' ? 'ok' : 'stale';
  return view.state === 'terminating' ? 'ok' : 'extra';
}

function missingRow(
  id: string,
  port: ServicePortPlan,
  { labels, isLocal }: Pick<BackendRow, 'labels' | 'isLocal'>,
): BackendRow {
  return {
    namespace: port.namespace,
    name: port.name,
    port: port.portName,
    backend: id.slice(id.lastIndexOf(' ') + 1),
    family: port.family,
    labels,
    isDesired: true,
    kernelState: 'missing',
    state: '',
    isLocal,
    connections: 0,
    open: 0,
    id: 0,
    generation: 0,
  };
}
