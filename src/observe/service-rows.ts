// SPDX-License-Identifier: Apache-2.0
// The rows of `fairlead services`: desired versus programmed state of each frontend.

import {
  type Capabilities,
  servedByTexts,
  servingDataplanes,
  unservedTexts,
  usedAlgorithm,
  usedForwarding,
} from '../engines/capabilities.ts';
import { frontendKeyText, frontendText } from '../engines/entry.ts';
import { byFrontend, idOf, namesOf, type Programmed, plannedState } from '../engines/programmed.ts';
import type { FrontendView, Traffic } from '../engines/snapshot.ts';
import { hostPort } from '../lib/address-bytes.ts';
import { resultOf } from '../lib/steps.ts';
import type { Algorithm, Forwarding, TrafficPolicy } from '../model/types.ts';
import { algorithmFor, algorithmOf, lookupOf } from '../plan/decide/balancing.ts';
import { forwardingOf, isForwarded } from '../plan/decide/forwarding.ts';
import { exposureReason } from '../plan/explain/match.ts';
import type {
  ClientPosition,
  Frontend,
  NodeFrontend,
  Plan,
  ServicePlan,
  ServicePortPlan,
} from '../plan/types.ts';
import { type ExposureColumns, exposureOf, sourcesOf } from './exposure-rows.ts';
import { type KernelState, sortedInSteps } from './rows.ts';
import { viewColumns } from './view-columns.ts';

export interface ServiceRow extends ExposureColumns {
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
  /** How many clients are remembered for each endpoint, where that is limited. */
  readonly affinityClients?: number;
  /** How a backend is chosen; undefined: no agent runs. */
  readonly algorithm?: Algorithm;
  /** For clients from outside, if that is another one. */
  readonly externalAlgorithm?: Algorithm;
  /** Of the lookup table of its clients from outside, or of all if they have the same. */
  readonly tableEntries?: number;
  /** Of a dataplane that has programmed it and cannot choose so: how it does. */
  readonly usedAlgorithm?: Algorithm;
  /** How requests from outside go to other nodes; undefined: none do, or no agent runs. */
  readonly forwarding?: Forwarding;
  /** What becomes of it for this protocol, by the dataplanes that have programmed it; undefined: the same. */
  readonly usedForwarding?: Forwarding;
  /** `10.1.1.5:8080=3` of backends whose weight is not 1, sorted; 0 = gets no new connections. */
  readonly weights?: readonly string[];
  /** Backends for clients on this node, sorted; empty if the plan or the kernel lacks the frontend. */
  readonly desired: readonly string[];
  readonly kernel: readonly string[];
  /** Backends for clients outside the node. */
  readonly externalDesired: readonly string[];
  readonly externalKernel: readonly string[];
  /** Endpoints that still serve while they terminate. */
  readonly terminating: readonly string[];
  readonly kernelState: KernelState;
  /** Who has programmed it: `bpf`; of several dataplanes each with the clients it serves; empty if nobody. */
  readonly servedBy: readonly string[];
  /** `not served by bpf: packets from outside`; empty if all intended clients are served. */
  readonly limits: readonly string[];
  /** Why it has no endpoints, and which addresses of its Service have no frontend; absent = nothing to say. */
  readonly notes?: readonly string[];
  /** With --shadow: `as kube-proxy`, what differs, or that nothing is proven yet. */
  readonly shadow?: string;
  /** This and the next three are sums over the dataplanes that count; undefined: none of those that have it does. */
  readonly connections?: number | undefined;
  readonly refused?: number | undefined;
  readonly dropped?: number | undefined;
  readonly affinityHits?: number | undefined;
  /** Packets that were translated; undefined: not known, or the packet layer is not loaded. */
  readonly toBackend?: Traffic;
  readonly toClient?: Traffic;
  /** Where its dataplane has it instead of at its own address: `127.0.0.1:23817`. */
  readonly reachedAt?: string;
}

/**
 * @param plan undefined when no agent runs
 * @param dataplanes those composed, in order
 */
export const serviceRows = (
  plan: Plan | undefined,
  kernel: Iterable<FrontendView>,
  dataplanes: readonly Capabilities[],
): readonly ServiceRow[] => resultOf(serviceRowsInSteps(plan, kernel, dataplanes));

/** The same in small steps, in which the plan must not change. */
export function* serviceRowsInSteps(
  plan: Plan | undefined,
  kernel: Iterable<FrontendView>,
  dataplanes: readonly Capabilities[],
): Generator<void, readonly ServiceRow[]> {
  const held = byFrontend(kernel);
  const rows: ServiceRow[] = [];
  for (const service of plan?.services.values() ?? []) {
    for (const port of service.ports) {
      for (const frontend of port.frontends) {
        const id = frontendKeyText(idOf(frontend, port));
        rows.push(plannedRow(service, port, frontend, { dataplanes, views: held.get(id) ?? [] }));
        held.delete(id);
        yield;
      }
      rows.push(...nodeProcessRows(service, port, held));
    }
    rows.push(...withheldRows(service, plan?.node.labels));
  }
  for (const views of held.values()) rows.push(...kernelOnlyRows(views, plan !== undefined));
  return yield* sortedInSteps(
    rows,
    (row) => `${row.namespace}/${row.name} ${row.family} ${row.frontend}`,
  );
}

/** Frontends that a process of this node gets, unless a dataplane still has them. */
function nodeProcessRows(
  service: ServicePlan,
  port: ServicePortPlan,
  held: ReadonlyMap<string, unknown>,
): readonly ServiceRow[] {
  return (port.onNode ?? [])
    .filter(({ isListenedTo }) => isListenedTo)
    .filter((frontend) => !held.has(frontendKeyText(idOf(frontend, port))))
    .map((frontend) => nodeProcessRow(service, port, frontend));
}

const nodeProcessRow = (
  { namespace, name, type, labels = '' }: ServicePlan,
  port: ServicePortPlan,
  frontend: NodeFrontend,
): ServiceRow => ({
  ...{ namespace, name, type, labels, port: port.portName, family: port.family },
  ...{ kind: frontend.kind, frontend: frontendText(idOf(frontend, port)) },
  ...{ internalTrafficPolicy: undefined, externalTrafficPolicy: undefined },
  ...{ affinitySeconds: port.affinityTimeoutSeconds, sourceRanges: undefined },
  ...{ desired: [], kernel: [], externalDesired: [], externalKernel: [], terminating: [] },
  ...{ kernelState: 'node-process', servedBy: [NODE_PROCESS], limits: [] },
});

/** Frontends that the Service's annotations leave out, each with the reason. */
function withheldRows(service: ServicePlan, nodeLabels: string | undefined): readonly ServiceRow[] {
  const { exposure, namespace, name, type, labels = '' } = service;
  if (exposure === undefined) return [];
  const notes = [exposureReason(exposure, nodeLabels)];
  return exposure.withheld.map((frontend) => ({
    ...{ namespace, name, type, labels, port: '', kind: '', frontend, notes },
    family: frontend.startsWith('[') || frontend.endsWith('IPv6') ? 'IPv6' : 'IPv4',
    ...{ internalTrafficPolicy: undefined, externalTrafficPolicy: undefined, affinitySeconds: 0 },
    ...{ sourceRanges: undefined, ...exposureOf(service) },
    ...{ desired: [], kernel: [], externalDesired: [], externalKernel: [], terminating: [] },
    ...{ kernelState: 'withheld', servedBy: [], limits: [] },
  }));
}

const NODE_PROCESS = 'a process of this node that listens there';

function plannedRow(
  service: ServicePlan,
  port: ServicePortPlan,
  frontend: Frontend,
  programmed: Programmed,
): ServiceRow {
  const { dataplanes, views } = programmed;
  const { host, outside } = frontend.rules;
  const viewFor = (position: ClientPosition): FrontendView | undefined => {
    const [serving] = servingDataplanes(dataplanes, port, frontend, [position]);
    return views.find(({ dataplane }) => dataplane === serving) ?? views[0];
  };
  return {
    namespace: service.namespace,
    name: service.name,
    port: port.portName,
    type: service.type,
    kind: frontend.kind,
    frontend: frontendText(idOf(frontend, port)),
    family: port.family,
    labels: service.labels ?? '',
    ...policiesOf(port),
    affinitySeconds: port.affinityTimeoutSeconds,
    ...affinityLimit(port, programmed),
    ...algorithmsOf(port, frontend, programmed),
    ...forwardingsOf(port, frontend, programmed),
    weights: weightsOf(port),
    ...sourcesOf(port, frontend),
    ...exposureOf(service),
    desired: namesOf(port[host.scope]),
    kernel: viewFor('pod')?.internal.toSorted() ?? [],
    externalDesired: namesOf(port[outside.scope]),
    externalKernel: viewFor('outside')?.external.toSorted() ?? [],
    terminating: terminatingOf(port),
    kernelState: plannedState(port, frontend, programmed),
    servedBy: servedByTexts(
      dataplanes,
      port,
      frontend,
      views.map(({ dataplane }) => dataplane),
    ),
    limits: unservedTexts(dataplanes, port, frontend),
    ...notesOf(service, port),
    ...viewColumns(views),
  };
}

function notesOf(
  { unserved = [] }: ServicePlan,
  { emptyNote }: ServicePortPlan,
): Pick<ServiceRow, 'notes'> {
  const notes = [
    ...(emptyNote === undefined ? [] : [emptyNote.reason]),
    ...unserved.map(({ field, reason }) => `${field}: ${reason}`),
  ];
  return notes.length === 0 ? {} : { notes };
}

/** The least of those that have programmed it. */
function affinityLimit(
  { affinityTimeoutSeconds }: ServicePortPlan,
  { dataplanes, views }: Programmed,
): Pick<ServiceRow, 'affinityClients'> {
  if (affinityTimeoutSeconds === 0) return {};
  const limits = dataplanes
    .filter(({ dataplane }) => views.some((view) => view.dataplane === dataplane))
    .flatMap(({ affinityClients }) => affinityClients ?? []);
  return limits.length === 0 ? {} : { affinityClients: Math.min(...limits) };
}

/** The policies of the port's frontends: a policy without a frontend has no effect. */
function policiesOf({
  frontends,
}: ServicePortPlan): Pick<ServiceRow, 'internalTrafficPolicy' | 'externalTrafficPolicy'> {
  const policy = (frontend: Frontend | undefined): TrafficPolicy | undefined =>
    frontend && (frontend.rules.outside.scope === 'local' ? 'Local' : 'Cluster');
  return {
    internalTrafficPolicy: policy(frontends.find(({ kind }) => kind === 'ClusterIP')),
    externalTrafficPolicy: policy(frontends.find(({ kind }) => kind !== 'ClusterIP')),
  };
}

function algorithmsOf(
  port: ServicePortPlan,
  frontend: Frontend,
  { dataplanes, views }: Programmed,
): Pick<ServiceRow, 'algorithm' | 'externalAlgorithm' | 'tableEntries' | 'usedAlgorithm'> {
  const algorithm = algorithmOf(port);
  const external = algorithmFor(port, frontend, 'outside');
  const backends = port[frontend.rules.outside.scope].length;
  const lookup = lookupOf(external);
  const other = dataplanes
    .filter(({ dataplane }) => views.some((view) => view.dataplane === dataplane))
    .map((one) => usedAlgorithm(one, algorithm))
    .find((used) => used !== algorithm);
  return {
    algorithm,
    ...(external !== algorithm && { externalAlgorithm: external }),
    ...(lookup !== undefined &&
      backends > 0 && { tableEntries: lookup.entriesFor(backends, port.tableEntries) }),
    ...(other !== undefined && { usedAlgorithm: other }),
  };
}

function forwardingsOf(
  port: ServicePortPlan,
  frontend: Frontend,
  { dataplanes, views }: Programmed,
): Pick<ServiceRow, 'forwarding' | 'usedForwarding'> {
  if (!isForwarded(frontend)) return {};
  const forwarding = forwardingOf(port);
  const { directReturn, ipip } = frontend.rules.outside;
  const isAble = dataplanes
    .filter(({ dataplane }) => views.some((view) => view.dataplane === dataplane))
    .every((one) => usedForwarding(one) === 'dsr');
  const direct = ipip === true ? 'ipip' : 'dsr';
  const used = isAble && directReturn === true ? direct : 'snat';
  return { forwarding, ...(used !== forwarding && { usedForwarding: used }) };
}

/** Of all that serve: one of weight 0 is in no set. */
const weightsOf = ({ serving }: ServicePortPlan): readonly string[] =>
  [...serving].flatMap(({ address, port, weight }) =>
    weight === undefined ? [] : `${hostPort(address, port)}=${weight}`,
  );

const terminatingOf = ({ serving }: ServicePortPlan): readonly string[] =>
  [...serving]
    .filter(({ isTerminating }) => isTerminating)
    .map(({ address, port }) => hostPort(address, port));

const kernelOnlyRows = (views: readonly FrontendView[], hasPlan: boolean): readonly ServiceRow[] =>
  views.map((view) => kernelOnlyRow(view, hasPlan));

function kernelOnlyRow(view: FrontendView, hasPlan: boolean): ServiceRow {
  return {
    namespace: view.port.namespace,
    name: view.port.name,
    port: view.port.portName,
    type: '',
    kind: '',
    frontend: frontendText(view.id),
    family: view.id.family,
    labels: '',
    internalTrafficPolicy: undefined,
    externalTrafficPolicy: undefined,
    affinitySeconds: view.affinitySeconds,
    sourceRanges: undefined,
    desired: [],
    kernel: view.internal.toSorted(),
    externalDesired: [],
    externalKernel: view.external.toSorted(),
    terminating: [],
    kernelState: hasPlan ? 'extra' : 'unknown',
    servedBy: [view.dataplane],
    limits: [],
    ...viewColumns([view]),
  };
}
