// SPDX-License-Identifier: Apache-2.0
// The rows of `fairlead backends`: desired versus programmed state of each backend of a service port.
import { type BackendView, portText } from '../engines/snapshot.ts';
import { hostPort } from '../lib/address-bytes.ts';
import { resultOf } from '../lib/steps.ts';
import type { Plan, ServicePortPlan } from '../plan/types.ts';
import { type KernelState, sortedInSteps } from './rows.ts';

export interface BackendRow {
  readonly namespace: string;
  readonly name: string;
  readonly port: string;
  readonly backend: string;
  readonly family: string;
  /** Labels of its Service. */
  readonly labels: string;
  readonly isDesired: boolean;
  readonly kernelState: KernelState;
  readonly state: string;
  /** undefined: known to the plan alone, which does not have it. */
  readonly isLocal?: boolean | undefined;
  /** This and the next two undefined: its dataplane does not count connections. */
  readonly connections?: number;
  /** Of sockets. */
  readonly open?: number;
  /** Flows of packets that live now. */
  readonly flows?: number;
  /** The dataplane that has it; '' if none has. */
  readonly dataplane: string;
  /** This and the next undefined: it has no entry in the maps. */
  readonly id?: number;
  readonly generation?: number;
}

interface WantedBackend {
  readonly port: ServicePortPlan;
  /** `address:port`. */
  readonly backend: string;
  readonly isLocal: boolean;
}

const labelsOf = (
  plan: Plan | undefined,
  { namespace, name }: Pick<ServicePortPlan, 'namespace' | 'name'>,
): string => plan?.services.get(`${namespace}/${name}`)?.labels ?? '';

export const backendRows = (
  plan: Plan | undefined,
  kernel: Iterable<BackendView>,
): readonly BackendRow[] => resultOf(backendRowsInSteps(plan, kernel));

/** The same in small steps, in which the plan must not change. */
export function* backendRowsInSteps(
  plan: Plan | undefined,
  kernel: Iterable<BackendView>,
): Generator<void, readonly BackendRow[]> {
  const wanted = new Map<string, WantedBackend>();
  for (const service of plan?.services.values() ?? []) {
    for (const port of service.ports) {
      if (port.frontends.length === 0) continue;
      for (const { address, port: number, isLocal } of [...port.cluster, ...port.local]) {
        const backend = hostPort(address, number);
        wanted.set(`${port.key} ${backend}`, { port, backend, isLocal });
      }
      yield;
    }
  }
  const rows: BackendRow[] = [];
  /** Several dataplanes may have the same one. */
  const found = new Set<string>();
  for (const view of kernel) {
    const key = `${portText(view.port)} ${view.backend}`;
    found.add(key);
    const known = { isLocal: wanted.get(key)?.isLocal, labels: labelsOf(plan, view.port) };
    rows.push(heldRow(view, known, plan === undefined ? undefined : wanted.has(key)));
    yield;
  }
  for (const [key, missing] of wanted) {
    if (!found.has(key)) rows.push(missingRow(missing, labelsOf(plan, missing.port)));
  }
  return yield* sortedInSteps(
    rows,
    (row) => `${row.namespace}/${row.name} ${row.port} ${row.family} ${row.backend}`,
  );
}

/** @param known to the plan */
function heldRow(
  view: BackendView,
  { isLocal, labels }: Pick<BackendRow, 'isLocal' | 'labels'>,
  isWanted: boolean | undefined,
): BackendRow {
  const { port, ...rest } = view;
  return {
    namespace: port.namespace,
    name: port.name,
    port: port.portName,
    family: port.family,
    ...rest,
    isLocal: rest.isLocal ?? isLocal,
    labels,
    isDesired: isWanted ?? false,
    kernelState: backendState(view, isWanted),
  };
}

/** A terminating backend is in no set but still desired: established flows use it. */
function backendState(view: BackendView, isWanted: boolean | undefined): KernelState {
  if (isWanted === undefined) return 'unknown';
  if (isWanted) return view.state === 'active' ? 'ok' : 'stale';
  return view.state === 'terminating' ? 'ok' : 'extra';
}

function missingRow({ port, backend, isLocal }: WantedBackend, labels: string): BackendRow {
  return {
    namespace: port.namespace,
    name: port.name,
    port: port.portName,
    backend,
    family: port.family,
    labels,
    isDesired: true,
    kernelState: 'missing',
    state: '',
    isLocal,
    dataplane: '',
  };
}
