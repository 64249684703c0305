// SPDX-License-Identifier: Apache-2.0
// One service port from what the kernel holds to what the plan says, in the order that never shows
// half an update: prepare (new backends and sets, referred to by nobody) -> the caller puts the
// frontends -> settle (what no frontend refers to any more is marked and retired).
// If prepare fails nothing is visible and everything it took is given back.
// Floor 3a: bookkeeping over Tables; makes no system call.
import type { Scope, ServicePortPlan } from '../../plan/types.ts';
import { ensureBackend, retireBackend } from './backends.ts';
import { encodeFrontend, encodeFrontendKey } from './layout.ts';
import {
  createPortRecord,
  type FrontendRecord,
  type Ledger,
  linesOf,
  ownerKey,
  type PortRecord,
  removePort,
  type SetRecord,
} from './ledger.ts';
import { type RenderedFrontend, type RenderedPort, renderPort } from './render.ts';
import { ensureSets, refOf } from './sets.ts';
import { element } from './tables.ts';
import { TableFull, type Taking } from './taking.ts';

export interface PreparedPort {
  readonly record: PortRecord;
  readonly rendered: RenderedPort;
  /** True if the record (and its service id) is new: its name must be written before its frontends. */
  readonly isNew: boolean;
  readonly puts: readonly { readonly text: string; readonly frontend: FrontendRecord }[];
  /** Frontend texts the plan no longer has. */
  readonly drops: readonly string[];
  /** Takes back every id and line that prepare took. */
  readonly undo: () => void;
}

/** Throws TableFull; then nothing has changed. */
export function preparePort(
  ledger: Ledger,
  port: ServicePortPlan,
  ownsClusterIp: boolean,
): PreparedPort {
  const undos: (() => void)[] = [];
  const undo = (): void => {
    for (const step of undos.reverse()) step();
    undos.length = 0;
  };
  try {
    const known = ledger.services.get(`${port.namespace}/${port.name}`)?.get(port.key);
    const record = known ?? newRecord(ledger, port, undos);
    const taking: Taking = { ledger, record, undos };
    const rendered = renderPort(port, ownsClusterIp);
    for (const [key, backend] of rendered.backends) ensureBackend(taking, key, backend);
    const sets = ensureSets(taking, rendered);
    const puts = rendered.frontends
      .map((frontend) => ({
        text: frontend.text,
        frontend: frontendRecord(taking, frontend, port, sets),
      }))
      .filter(({ text, frontend }) => !isInKernel(record, text, frontend));
    const wanted = new Set(rendered.frontends.map((frontend) => frontend.text));
    const drops = [...record.frontends.keys()].filter((text) => !wanted.has(text));
    return { record, rendered, isNew: known === undefined, puts, drops, undo };
  } catch (error) {
    undo();
    throw error;
  }
}

function newRecord(ledger: Ledger, port: ServicePortPlan, undos: (() => void)[]): PortRecord {
  const serviceId = ledger.serviceIds.take();
  if (serviceId === undefined) {
    throw new TableFull(
      ledger.tables.serviceName.name,
      ledger.serviceIds.capacity,
      'service-ports',
    );
  }
  undos.push(() => ledger.serviceIds.give(serviceId));
  return createPortRecord(port.key, port.family, serviceId);
}

function frontendRecord(
  taking: Taking,
  frontend: RenderedFrontend,
  port: ServicePortPlan,
  sets: Readonly<Record<Scope, SetRecord | undefined>>,
): FrontendRecord {
  const { ledger, record } = taking;
  const known = record.frontends.get(frontend.text);
  const id = known?.id ?? takeFrontendId(taking);
  const internal = frontend.internal && sets[frontend.internal];
  const external = frontend.external && sets[frontend.external];
  if (known === undefined) element(ledger.tables.frontendStat, id).fill(0);
  return {
    id,
    key: frontend.key,
    keyBytes: known?.keyBytes ?? encodeFrontendKey(frontend.key),
    value: encodeFrontend({
      internal: refOf(internal),
      external: refOf(external),
      serviceId: record.serviceId,
      frontendId: id,
      affinitySeconds: port.affinityTimeoutSeconds,
      internalEmpty: frontend.internalEmpty,
      externalEmpty: frontend.externalEmpty,
      isNodePort: frontend.key.address === undefined,
      arePodsOutside: frontend.arePodsOutside,
      hasSourceRanges: frontend.hasSourceRanges,
    }),
    internal,
    external,
  };
}

function takeFrontendId({ ledger, undos }: Taking): number {
  const id = ledger.frontendIds.take();
  if (id === undefined) {
    throw new TableFull(ledger.tables.frontendStat.name, ledger.frontendIds.capacity, 'frontends');
  }
  undos.push(() => ledger.frontendIds.give(id));
  return id;
}

function isInKernel(record: PortRecord, text: string, frontend: FrontendRecord): boolean {
  const held = record.frontends.get(text);
  return held?.value.every((byte, index) => byte === frontend.value[index]) ?? false;
}

/** Notes that the kernel now has this frontend, taking it over from any other port. */
export function ownFrontend(
  ledger: Ledger,
  record: PortRecord,
  text: string,
  frontend: FrontendRecord,
): PortRecord | undefined {
  const key = ownerKey(record.family, text);
  const previous = ledger.owners.get(key);
  const isTakenOver = previous !== undefined && previous !== record;
  if (isTakenOver) forgetFrontend(ledger, previous, text);
  if (frontend.key.address === undefined && !record.frontends.has(text)) ledger.nodePorts++;
  record.frontends.set(text, frontend);
  ledger.owners.set(key, record);
  return isTakenOver ? previous : undefined;
}

/** Notes that the kernel no longer has this frontend on this port's behalf. */
export function forgetFrontend(ledger: Ledger, record: PortRecord, text: string): void {
  const frontend = record.frontends.get(text);
  if (frontend === undefined) return;
  record.frontends.delete(text);
  if (frontend.key.address === undefined) ledger.nodePorts--;
  ledger.retired.frontendIds.push(frontend.id);
  const key = ownerKey(record.family, text);
  if (ledger.owners.get(key) === record) ledger.owners.delete(key);
}

/**
 * Marks and retires what no frontend of the port refers to any more. Backends still serving become
 * TERMINATING (sockets on them stay), others GONE.
 * @returns true if the port holds nothing any more and its record was dropped
 */
export function settlePort(
  ledger: Ledger,
  record: PortRecord,
  serving: ReadonlySet<string>,
): boolean {
  const setsInUse = new Set<SetRecord>();
  for (const { internal, external } of record.frontends.values()) {
    if (internal !== undefined) setsInUse.add(internal);
    if (external !== undefined) setsInUse.add(external);
  }
  for (const set of record.sets) {
    if (setsInUse.has(set)) continue;
    record.sets.delete(set);
    ledger.retired.lines.push({ first: set.line, lines: linesOf(set.members) });
  }
  const idsInUse = new Set<number>();
  for (const set of setsInUse) for (const id of set.members) idsInUse.add(id);
  for (const [key, backend] of record.backends) {
    if (idsInUse.has(backend.id)) continue;
    retireBackend(ledger, record, key, serving.has(key));
  }
  if (record.frontends.size > 0 || record.backends.size > 0) return false;
  removePort(ledger, record);
  ledger.retired.serviceIds.push(record.serviceId);
  return true;
}
