// SPDX-License-Identifier: Apache-2.0
// What a Service has in the kernel as sorted texts, the differences of two such states, and a state after a difference. Pure.
import { hostPort } from '../lib/address-bytes.ts';
import type {
  Backend,
  BackendList,
  Frontend,
  ServicePlan,
  ServicePortPlan,
} from '../plan/types.ts';
import type { ListDiff, PortDiff, PortState, ServiceDiff, ServiceState } from './records.ts';

export const stateOf = (plan: ServicePlan): ServiceState =>
  Object.fromEntries(
    plan.ports.map((port) => [`${port.portName}/${port.protocol}/${port.family}`, portState(port)]),
  );

function portState(port: ServicePortPlan): PortState {
  const how = howText(port);
  return {
    f: port.frontends.map(frontendText).sort(),
    c: backendTexts(port.cluster),
    ...(port.local.length > 0 && { l: backendTexts(port.local) }),
    ...(how !== '' && { o: how }),
  };
}

const backendTexts = (list: BackendList): readonly string[] => list.map(backendText).sort();

function backendText({ address, port, isTerminating, weight = 1 }: Backend): string {
  const text = hostPort(address, port);
  return `${text}${isTerminating ? ' terminating' : ''}${weight === 1 ? '' : ` weight=${weight}`}`;
}

const frontendText = ({ kind, address, port }: Frontend): string =>
  `${kind} ${address === undefined ? port : hostPort(address, port)}`;

function howText({
  affinityTimeoutSeconds,
  algorithm,
  forwarding,
  sources,
}: ServicePortPlan): string {
  return [
    affinityTimeoutSeconds === 0 ? '' : `affinity=${affinityTimeoutSeconds}s`,
    algorithm === undefined ? '' : `algorithm=${algorithm}`,
    forwarding === undefined ? '' : `forwarding=${forwarding}`,
    sources === undefined ? '' : `sources=${JSON.stringify(sources)}`,
  ]
    .filter((text) => text !== '')
    .join(' ');
}

const NOTHING: PortState = { f: [], c: [] };
const NONE: readonly string[] = [];

/** @param after undefined: the Service is no more */
export function diffOf(before: ServiceState = {}, after: ServiceState | undefined): ServiceDiff {
  if (after === undefined) return null;
  const ports = new Set([...Object.keys(before), ...Object.keys(after)]);
  return Object.fromEntries(
    [...ports].flatMap((port): [string, PortDiff | null][] => {
      const now = after[port];
      if (now === undefined) return [[port, null]];
      const diff = portDiff(before[port] ?? NOTHING, now);
      // A port without anything is one, too.
      const isNew = before[port] === undefined;
      return isNew || Object.keys(diff).length > 0 ? [[port, diff]] : [];
    }),
  );
}

function portDiff(before: PortState, after: PortState): PortDiff {
  const f = listDiff(before.f, after.f);
  const c = listDiff(before.c, after.c);
  const l = listDiff(before.l ?? NONE, after.l ?? NONE);
  return {
    ...(f && { f }),
    ...(c && { c }),
    ...(l && { l }),
    ...(before.o !== after.o && { o: after.o ?? '' }),
  };
}

function listDiff(before: readonly string[], after: readonly string[]): ListDiff | undefined {
  const had = new Set(before);
  const has = new Set(after);
  const plus = after.filter((text) => !had.has(text));
  const minus = before.filter((text) => !has.has(text));
  return plus.length === 0 && minus.length === 0 ? undefined : [plus, minus];
}

/** @returns undefined: the Service is no more */
export function applied(state: ServiceState = {}, diff: ServiceDiff): ServiceState | undefined {
  if (diff === null) return undefined;
  const ports = new Map(Object.entries(state));
  for (const [port, change] of Object.entries(diff)) {
    if (change === null) ports.delete(port);
    else ports.set(port, appliedTo(ports.get(port) ?? NOTHING, change));
  }
  return Object.fromEntries(ports);
}

function appliedTo(state: PortState, { f, c, l, o }: PortDiff): PortState {
  const local = listAfter(state.l ?? NONE, l);
  const how = o ?? state.o ?? '';
  return {
    f: listAfter(state.f, f),
    c: listAfter(state.c, c),
    ...(local.length > 0 && { l: local }),
    ...(how !== '' && { o: how }),
  };
}

function listAfter(list: readonly string[], diff: ListDiff | undefined): readonly string[] {
  if (diff === undefined) return list;
  const [plus, minus] = diff;
  const gone = new Set(minus);
  return [...list.filter((text) => !gone.has(text)), ...plus].sort();
}
