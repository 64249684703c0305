// SPDX-License-Identifier: Apache-2.0
// What `fairlead services` and `backends` show: the plan beside the kernel, row by row, and which rows
// differ.

import type { BackendView, FrontendView } from '../dataplane/bpf/inspect/view.ts';
import { frontendText, setNames } from '../dataplane/bpf/sync/render.ts';
import { hostPort } from '../lib/address-bytes.ts';
import type { Frontend, Plan, ServicePlan, ServicePortPlan } from '../plan/types.ts';

/**
 * ok: kernel and plan agree · missing: planned, not in the kernel · stale: the kernel has other backends ·
 * extra: in the kernel, not planned · unknown: no agent runs, so nothing says what is wanted.
 */
export type KernelState = 'ok' | 'missing' | 'stale' | 'extra' | 'unknown';

export interface ServiceRow {
  readonly namespace: string;
  readonly name: string;
  readonly port: string;
  readonly type: string;
  readonly kind: string;
  readonly frontend: string;
  readonly family: string;
  readonly affinitySeconds: number;
  /** Backends of clients on this node; undefined where the plan or the kernel has no such frontend. */
  readonly desired: readonly string[] | undefined;
  readonly kernel: readonly string[] | undefined;
  readonly kernelState: KernelState;
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
  readonly desired: boolean | undefined;
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
  const desired = setNames(port, frontend.paths.host.scope);
  const external = setNames(port, frontend.paths.outside.scope);
  const isSame =
    view !== undefined && hasSame(desired, view.internal) && hasSame(external, view.external);
  return {
    namespace: service.namespace,
    name: service.name,
    port: port.portName,
    type: service.type,
    kind: frontend.kind,
    frontend: textOf(frontend, port),
    family: port.family,
    affinitySeconds: port.affinityTimeoutSeconds,
    desired,
    kernel: view?.internal.toSorted(),
    kernelState: view === undefined ? 'missing' : isSame ? 'ok' : 'stale',
    ...countersOf(view),
  };
}

function kernelOnlyRow(view: FrontendView, hasPlan: boolean): ServiceRow {
  return {
    ...split(view.service),
    port: portName(view.port),
    type: '',
    kind: '',
    frontend: view.frontend,
    family: view.family,
    affinitySeconds: view.affinitySeconds,
    desired: undefined,
    kernel: view.internal,
    kernelState: hasPlan ? 'extra' : 'unknown',
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
    rows.push(heldRow(view, plan === undefined ? undefined : isWanted));
  }
  for (const [id, { port, isLocal }] of wanted) rows.push(missingRow(id, port, isLocal));
  return sorted(
    rows,
    (row) => `${row.namespace}/${row.name} ${row.port} ${row.family} ${row.backend}`,
  );
}

function heldRow(view: BackendView, isWanted: boolean | undefined): BackendRow {
  const { service, port, ...rest } = view;
  return {
    ...split(service),
    port: portName(port),
    ...rest,
    desired: isWanted,
    kernelState: backendState(view, isWanted),
  };
}

/** A terminating backend is in no set and yet wanted there: sockets on it still use it. */
function backendState(view: BackendView, isWanted: boolean | undefined): KernelState {
  if (isWanted === undefined) return 'unknown';
  if (isWanted) return view.state === 'active' ? 'ok' : 'stale';
  return view.state === 'terminating' ? 'ok' : 'extra';
}

function missingRow(id: string, port: ServicePortPlan, isLocal: boolean): BackendRow {
  return {
    namespace: port.namespace,
    name: port.name,
    port: port.portName,
    backend: id.slice(id.lastIndexOf(' ') + 1),
    family: port.family,
    desired: true,
    kernelState: 'missing',
    state: '',
    isLocal,
    connections: 0,
    open: 0,
    id: 0,
    generation: 0,
  };
}
