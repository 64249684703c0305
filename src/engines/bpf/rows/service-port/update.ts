// SPDX-License-Identifier: Apache-2.0
// Brings one service port from its programmed to its desired state, in an order that never exposes a partial
// update: prepare (new backends and sets, not referred to yet) -> the caller puts the frontends -> finalize
// (what no frontend refers to any more is marked and retired).
// If prepare fails, nothing is visible, and everything it allocated is freed.
// Bookkeeping over Tables; makes no system call.
import { wantsIpip } from '../../../../plan/direct-return/asked.ts';
import type { ServiceKey, ServicePortPlan } from '../../../../plan/types.ts';
import { backendKey } from '../../layout/backend-key.ts';
import {
  encodeFrontend,
  encodeFrontendKey,
  type RulePosition,
  type RuleValue,
} from '../../layout/layout.ts';
import { type Allocation, allocateId, undoAll } from '../../state/allocation/allocation.ts';
import {
  blocksOf,
  createPortRecord,
  type FrontendRecord,
  frontendIdOf,
  frontendOf,
  type Ledger,
  type PortRecord,
  portOf,
  removePort,
  type SetRecord,
  withItem,
  without,
} from '../../state/ledger.ts';
import { clear, type Tables } from '../../state/tables.ts';
import { madeTable } from '../lookup-tables.ts';
import { countFrontend, isNodePortKey } from '../satellites/service-ranges.ts';
import { ensureBackends, retireBackends } from './backends.ts';
import { forgetGone, formerSet } from './base.ts';
import { contentsOf, ensureFirst, type FullTable } from './lesser-set.ts';
import {
  type RenderedFrontend,
  type RenderedRule,
  type RenderedSet,
  renderFrontends,
  renderSets,
} from './render.ts';
import { isEqual, refOf } from './sets.ts';

/** One frontend to be written: what the ledger will have, and the bytes. */
export interface FrontendPut {
  readonly frontend: FrontendRecord;
  /** No key leads to it yet; known frontends are changed in place, word by word. */
  readonly isNew: boolean;
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

export interface PreparedPort {
  readonly record: PortRecord;
  /** True if the record (and its service id) is new: its name must be written before its frontends. */
  readonly isNew: boolean;
  readonly puts: readonly FrontendPut[];
  /** Frontends the plan no longer has. */
  readonly drops: readonly FrontendRecord[];
  /** Why it has another set than it should. */
  readonly noRoom?: FullTable;
  /** Steps that free what was allocated and written for it: see undoPort. */
  readonly undos: (() => void)[];
}

/** Frees every id, block and satellite that the port got in this sync. */
export const undoPort = ({ undos }: PreparedPort): void => undoAll(undos);

/** Throws TableFull; then nothing has changed. */
export function preparePort(
  ledger: Ledger,
  service: ServiceKey,
  port: ServicePortPlan,
): PreparedPort {
  const undos: (() => void)[] = [];
  try {
    const known = portOf(ledger, service, port.key);
    const record = known ?? newRecord(ledger, service, port, undos);
    const allocation: Allocation = { ledger, record, undos };
    const wanted = renderFrontends(port);
    const { sets, noRoom } = ensureSets(allocation, port, wanted);
    const puts = wanted
      .map((frontend) => frontendPut(allocation, frontend, port, sets))
      .filter((put) => !isInKernel(ledger, record, put));
    const drops = record.frontends.filter(({ text }) => !wanted.some((f) => f.text === text));
    return { record, isNew: known === undefined, puts, drops, ...(noRoom && { noRoom }), undos };
  } catch (error) {
    undoAll(undos);
    throw error;
  }
}

/** A set, and what it was made for; `set` is undefined if that has no backends. */
interface MadeSet extends Pick<RenderedSet, 'scope' | 'algorithm'> {
  readonly set: SetRecord | undefined;
}

function ensureSets(
  allocation: Allocation,
  port: ServicePortPlan,
  frontends: readonly RenderedFrontend[],
): { readonly sets: readonly MadeSet[]; readonly noRoom: FullTable | undefined } {
  const { ledger, record } = allocation;
  const sets: MadeSet[] = [];
  let noRoom: FullTable | undefined;
  for (const rendered of renderSets(port, frontends)) {
    const { scope, algorithm, backends } = rendered;
    if (backends.length === 0) continue;
    const made = madeTable(ledger, port, scope);
    const ids = ensureBackends(allocation, backends, wantsIpip(port));
    const former = formerSet(ledger, record, frontends, rendered);
    const contents = contentsOf(port, rendered, ids, { made, former });
    const ensured = ensureFirst(allocation, contents);
    sets.push({ scope, algorithm, set: ensured.set });
    noRoom ??= ensured.noRoom;
  }
  return { sets, noRoom };
}

const setOf = (
  sets: readonly MadeSet[],
  { scope, algorithm }: RenderedRule,
): SetRecord | undefined =>
  sets.find((made) => made.scope === scope && made.algorithm === algorithm)?.set;

function newRecord(
  ledger: Ledger,
  service: ServiceKey,
  { key, family }: ServicePortPlan,
  undos: (() => void)[],
): PortRecord {
  const table = ledger.tables.serviceName.name;
  const serviceId = allocateId(ledger.serviceIds, { undos }, table, 'service-ports');
  return createPortRecord(key, service, family, serviceId);
}

function frontendPut(
  allocation: Allocation,
  frontend: RenderedFrontend,
  port: ServicePortPlan,
  made: readonly MadeSet[],
): FrontendPut {
  const { ledger, record } = allocation;
  const { text, rules } = frontend;
  const holder = ledger.owners[record.family].get(text);
  const held = frontendOf(record, text) ?? (holder && frontendOf(holder, text));
  const id = held?.id ?? allocateFrontendId(allocation);
  const sets = eachPosition(rules, (rule) => setOf(made, rule));
  const value = encodeFrontend({
    key: frontend.key,
    rules: {
      unknown: ruleValue(rules.unknown, sets.unknown),
      host: ruleValue(rules.host, sets.host),
      pod: ruleValue(rules.pod, sets.pod),
      outside: ruleValue(rules.outside, sets.outside),
    },
    serviceId: record.serviceId,
    affinitySeconds: port.affinityTimeoutSeconds,
    isEndpointPort: frontend.isEndpointPort,
  });
  return {
    frontend: { text, id, sets },
    isNew: held === undefined,
    key: encodeFrontendKey(frontend.key),
    value,
  };
}

function ruleValue(rule: RenderedRule, set: SetRecord | undefined): RuleValue {
  const { whenEmpty, masquerade, keepsLocalClient, hasSourceRanges, directReturn, ipip } = rule;
  return {
    ...refOf(set),
    whenEmpty,
    masquerade,
    keepsLocalClient,
    hasSourceRanges,
    returnsDirectly: directReturn === true,
    inIpip: ipip === true,
  };
}

const eachPosition = <T>(
  { unknown, host, pod, outside }: RenderedFrontend['rules'],
  of: (rule: RenderedRule) => T,
): Readonly<Record<RulePosition, T>> => ({
  unknown: of(unknown),
  host: of(host),
  pod: of(pod),
  outside: of(outside),
});

function allocateFrontendId(allocation: Allocation): number {
  const { frontendIds, tables } = allocation.ledger;
  const id = allocateId(frontendIds, allocation, tables.frontendStat.name, 'frontends');
  clearCounters(tables, id);
  return id;
}

function clearCounters({ frontendStat, traffic }: Tables, id: number): void {
  clear(frontendStat, id);
  if (traffic !== undefined) clear(traffic, id);
}

function isInKernel(ledger: Ledger, record: PortRecord, { frontend, value }: FrontendPut): boolean {
  if (frontendOf(record, frontend.text) === undefined) return false;
  return ledger.caches.frontend.hasValue(frontend.id, value);
}

/** True for any address of the node: all bytes before port and protocol are zero. */
/** Notes that the kernel now has this frontend, and that no other port has it any more. */
export function ownFrontend(
  ledger: Ledger,
  record: PortRecord,
  { frontend, key, value }: FrontendPut,
): PortRecord | undefined {
  const { text } = frontend;
  const owners = ledger.owners[record.family];
  const previous = owners.get(text);
  const isMoved = previous !== undefined && previous !== record;
  if (isMoved) disownFrontend(ledger, previous, frontend);
  const before = frontendOf(record, text);
  if (before === undefined && isNodePortKey(key)) ledger.nodePorts++;
  if (before === undefined) countFrontend(ledger.ranges, key, 1);
  const others = before === undefined ? record.frontends : without(record.frontends, before);
  record.frontends = withItem(others, frontend);
  ledger.caches.frontend.write(frontend.id, key, value);
  owners.set(text, record);
  return isMoved ? previous : undefined;
}

/** The frontend keeps its id, and its counters restart. */
function disownFrontend(ledger: Ledger, record: PortRecord, { text, id }: FrontendRecord): void {
  const frontend = frontendOf(record, text);
  if (frontend === undefined) return;
  record.frontends = without(record.frontends, frontend);
  if (frontendIdOf(ledger, record, frontend).address === undefined) ledger.nodePorts--;
  countFrontend(ledger.ranges, ledger.caches.frontend.key(frontend.id, record.family), -1);
  if (frontend.id === id) clearCounters(ledger.tables, id);
  else ledger.retired.frontendIds.push(frontend.id);
}

/** Records that the kernel no longer has this frontend for this port. */
export function forgetFrontend(ledger: Ledger, record: PortRecord, text: string): void {
  const frontend = frontendOf(record, text);
  if (frontend === undefined) return;
  record.frontends = without(record.frontends, frontend);
  if (frontendIdOf(ledger, record, frontend).address === undefined) ledger.nodePorts--;
  countFrontend(ledger.ranges, ledger.caches.frontend.key(frontend.id, record.family), -1);
  ledger.retired.frontendIds.push(frontend.id);
  const owners = ledger.owners[record.family];
  if (owners.get(text) === record) owners.delete(text);
}

/**
 * Marks and retires what no frontend of the port refers to any more. Backends that still serve become
 * TERMINATING (sockets keep using them), others GONE.
 * @param port the port in the plan; undefined = it is gone, and no backend serves
 * @returns true if the port is empty now and its record was dropped
 */
export function finalizePort(
  ledger: Ledger,
  record: PortRecord,
  port: ServicePortPlan | undefined,
): boolean {
  for (const set of record.sets) {
    if (record.frontends.some(({ sets }) => isAmong(sets, set))) continue;
    record.sets = without(record.sets, set);
    ledger.retired.blocks.push({ first: set.block, blocks: blocksOf(set) });
  }
  retireUnused(ledger, record, port);
  forgetGone(ledger, record);
  if (record.frontends.length > 0 || record.backends.length > 0) return false;
  removePort(ledger, record);
  ledger.retired.serviceIds.push(record.serviceId);
  return true;
}

const isAmong = (
  { unknown, host, pod, outside }: FrontendRecord['sets'],
  set: SetRecord,
): boolean => unknown === set || host === set || pod === set || outside === set;

function retireUnused(ledger: Ledger, record: PortRecord, port: ServicePortPlan | undefined): void {
  // Nearly always: one set with all backends.
  if (record.sets.some(({ members }) => members === record.backends)) return;
  const inUse = new Set(record.sets.flatMap(({ members }) => members));
  let serving: ReadonlySet<unknown> | undefined;
  retireBackends(ledger, record, inUse, (key) => {
    serving ??= new Set(port?.serving.map((backend) => backendKey(backend, record.family)));
    return serving.has(key);
  });
  const same = record.sets.find(({ members }) => isEqual(members, record.backends));
  if (same !== undefined) record.backends = same.members;
}
