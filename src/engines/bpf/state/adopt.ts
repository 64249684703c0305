// SPDX-License-Identifier: Apache-2.0
// A ledger from the current contents of the tables: ids and sets survive a restart of the agent. Frontends
// that belong to no service port are reported as strays. Reads Tables, writes nothing.

import { exactList } from '../../../lib/compact.ts';
import { resultOf } from '../../../lib/steps.ts';
import { FAMILIES, type Family } from '../../../model/types.ts';
import { lookupOf } from '../../../plan/decide/balancing.ts';
import { frontendText } from '../../entry.ts';
import {
  BACKEND_STATE,
  backendServiceOffset,
  backendStateOffset,
  baseBlocksFor,
  blocksFor,
  decodeFrontend,
  decodeRangeKey,
  decodeServiceName,
  decodeU32,
  encodeFrontendKey,
  hasTable,
  type RuleValue,
  rangeFamily,
  rangeKind,
  type SetKind,
  type SourceRangeKey,
} from '../layout/layout.ts';
import { portKeyOf } from '../layout/names.ts';
import { addRange, PODS, rangeValueOf } from '../rows/satellites/range-registry.ts';
import { SATELLITES } from '../rows/satellites/satellites.ts';
import { countFrontend } from '../rows/satellites/service-ranges.ts';
import { digestOf } from '../rows/service-port/lookup-content.ts';
import { readEntries, readRun } from '../rows/service-port/runs.ts';
import { isEqual } from '../rows/service-port/sets.ts';
import {
  addPort,
  baseBlock,
  blocksOf,
  type Caches,
  createCaches,
  createLedger,
  createPortRecord,
  frontendIdOf,
  type Ledger,
  type Orphan,
  type PortRecord,
  type SetRecord,
  type SourceRange,
  tableBlock,
  withItem,
} from './ledger.ts';
import { type ArrayTable, element, type Tables } from './tables.ts';

export interface StrayFrontend {
  readonly family: Family;
  readonly key: Uint8Array;
}

export interface Adopted {
  readonly ledger: Ledger;
  /** Frontends of no known service port: to be deleted after the initial sync. */
  readonly stray: readonly StrayFrontend[];
  /** Active backends without an owner: the agent that wrote them died before it wrote their service id's name. */
  readonly orphans: readonly Orphan[];
  /** Source ranges of no known service port: their service ids are not used until these are deleted. */
  readonly strayRanges: readonly SourceRange[];
}

type PortsById = ReadonlyMap<number, PortRecord>;

/** Complexity: linear in the tables' contents plus one pass over the backend arrays. */
export const adopt = (tables: Tables): Adopted => resultOf(adoptInSteps(tables));

/** The same in steps of well under a millisecond, but for reading each hash; nothing may be written in between. */
export function* adoptInSteps(tables: Tables): Generator<void, Adopted> {
  const caches = createCaches();
  const ports = readServices(tables);
  yield;
  const { backendIds, orphans } = yield* readBackends(tables, caches, ports);
  const frontendIds = new Set<number>();
  const stray: StrayFrontend[] = [];
  for (const family of FAMILIES)
    yield* readFrontends({ tables, caches, family, ports, frontendIds, stray });
  const records = [...ports.values()];
  const ranges = readRanges(tables);
  const ledger = createLedger(tables, caches, {
    backendIds,
    frontendIds,
    serviceIds: new Set([...ports.keys(), ...rangeIdsWithin(ranges, tables.serviceName.capacity)]),
    blocks: records.flatMap(({ sets }) =>
      sets.map((set) => ({ first: set.block, blocks: blocksOf(set) })),
    ),
  });
  for (const record of records) {
    take(ledger, record);
    yield;
  }
  const strayRanges = adoptRanges(ledger, ranges, ports);
  for (const satellite of SATELLITES) satellite.adopt?.(ledger);
  return { ledger, stray, orphans, strayRanges };
}

type FoundRange = SourceRangeKey & Pick<SourceRange, 'kind'>;

/** Those whose value is as it should be; the audit deletes others. */
function readRanges({ sourceRange }: Tables): readonly FoundRange[] {
  return sourceRange.readAll().flatMap(({ key, value }) => {
    const kind = rangeKind(value);
    const range = decodeRangeKey(key, rangeFamily(value));
    const isWhole = kind !== undefined && (kind === 'pod') === (range.serviceId === PODS);
    const found = isWhole ? { ...range, kind } : undefined;
    return found && isSameBytes(rangeValueOf(found), value) ? [found] : [];
  });
}

/** Service ids that are not given to a service port while ranges have them. */
export const rangeIdsWithin = (
  ranges: readonly SourceRangeKey[],
  capacity: number,
): ReadonlySet<number> =>
  new Set(ranges.map(({ serviceId }) => serviceId).filter((id) => id !== PODS && id <= capacity));

function adoptRanges(
  ledger: Ledger,
  ranges: readonly FoundRange[],
  ports: PortsById,
): readonly SourceRange[] {
  const held = ranges.map((range) =>
    addRange(ledger, { ...range, owner: ports.get(range.serviceId) }),
  );
  return held.filter(({ owner, serviceId }) => owner === undefined && serviceId !== PODS);
}

function take(ledger: Ledger, record: PortRecord): void {
  addPort(ledger, record);
  for (const set of record.sets) if (set.base !== undefined) ledger.bases.set(set, record);
  const same = record.sets.find(({ members }) => isEqual(members, record.backends));
  if (same !== undefined) record.backends = same.members;
  for (const frontend of record.frontends) {
    ledger.owners[record.family].set(frontend.text, record);
    if (frontendIdOf(ledger, record, frontend).address === undefined) ledger.nodePorts++;
    countFrontend(ledger.ranges, ledger.caches.frontend.key(frontend.id, record.family), 1);
  }
}

function readServices(tables: Tables): Map<number, PortRecord> {
  const ports = new Map<number, PortRecord>();
  for (const { key, value } of tables.serviceName.readAll()) {
    const name = decodeServiceName(value);
    const service = name.name.split(':', 1)[0] ?? '';
    const serviceId = decodeU32(key);
    ports.set(serviceId, createPortRecord(portKeyOf(name), service, name.family, serviceId));
  }
  return ports;
}

/** @returns ids in use; ids of elements of unknown services are free */
function* readBackends(
  tables: Tables,
  caches: Caches,
  ports: PortsById,
): Generator<
  void,
  { readonly backendIds: ReadonlySet<number>; readonly orphans: readonly Orphan[] }
> {
  const taken = new Set<number>();
  const orphans: Orphan[] = [];
  const idsOf = new Map<PortRecord, number[]>();
  for (const family of FAMILIES) {
    yield* tables.backend[family].scanInSteps((view, at, id) => {
      const state = view.getUint8(at + backendStateOffset(family));
      const isHeld = state === BACKEND_STATE.ACTIVE || state === BACKEND_STATE.TERMINATING;
      if (!isHeld || id === 0) return false;
      const port = ports.get(view.getUint32(at + backendServiceOffset(family), true));
      if (port?.family !== family || taken.has(id)) {
        orphans.push({ family, id });
        return false;
      }
      taken.add(id);
      caches.backend[family].copy(id, view, at);
      const ids = idsOf.get(port);
      if (ids === undefined) idsOf.set(port, [id]);
      else ids.push(id);
      return true;
    });
  }
  for (const [port, ids] of idsOf) port.backends = exactList(ids);
  return { backendIds: taken, orphans };
}

interface Reading {
  readonly tables: Tables;
  readonly caches: Caches;
  readonly family: Family;
  readonly ports: PortsById;
  /** Grows: ids in use. */
  readonly frontendIds: Set<number>;
  /** Grows. */
  readonly stray: StrayFrontend[];
}

function* readFrontends(reading: Reading): Generator<void, void> {
  const { tables, caches, family, ports, frontendIds, stray } = reading;
  for (const { key, value } of tables.frontend[family].readAll()) {
    const id = decodeU32(value);
    const held = readFrontend(reading, id, key);
    const port = held && ports.get(held.serviceId);
    if (held === undefined || port?.family !== family || frontendIds.has(id)) {
      stray.push({ family, key });
      continue;
    }
    frontendIds.add(id);
    caches.frontend.write(id, key, element(tables.frontendRecord, id));
    const text = frontendText(held.key);
    const setOf = (rule: RuleValue) => readSet(tables.slotBlock, port, rule);
    const { unknown, host, pod, outside } = held.rules;
    const sets = {
      unknown: setOf(unknown),
      host: setOf(host),
      pod: setOf(pod),
      outside: setOf(outside),
    };
    port.frontends = withItem(port.frontends, { text, id, sets });
    yield;
  }
}

/** undefined if the key leads to no frontend, or to another key's. */
function readFrontend({ tables, family }: Reading, id: number, key: Uint8Array) {
  if (id === 0 || id >= tables.frontendRecord.length) return undefined;
  const held = decodeFrontend(element(tables.frontendRecord, id));
  if (held.key.family !== family) return undefined;
  return isSameBytes(encodeFrontendKey(held.key), key) ? held : undefined;
}

const isSameBytes = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, index) => byte === b[index]);

/** Equal refs are one set; a ref beyond the table is none (the next sync replaces it). */
function readSet(slots: ArrayTable, port: PortRecord, ref: RuleValue): SetRecord | undefined {
  const { block, members: length, kind } = ref;
  if (length === 0) return undefined;
  const known = port.sets.find(
    (set) => set.block === block && set.members.length === length && set.kind === kind,
  );
  if (known !== undefined) return withBase(slots, known, ref);
  if (block + blocksFor(length) > slots.length) return undefined;
  const [serviceId, ...members] = readRun(slots, block, length);
  const table = hasTable(kind) ? readTable(slots, tableBlock({ block, members }), kind) : NO_TABLE;
  if (serviceId !== port.serviceId || table === undefined) return undefined;
  const set: SetRecord = { block, kind, members, ...table, base: undefined, isDamaged: false };
  port.sets = withItem(port.sets, set);
  return withBase(slots, set, ref);
}

/** An agent that has died may have written it into some rules of its set alone. */
function withBase(slots: ArrayTable, set: SetRecord, { hasBase }: RuleValue): SetRecord {
  const first = baseBlock(set);
  if (hasBase !== true || set.base !== undefined || first >= slots.length) return set;
  const [entries = 0] = readRun(slots, first, 0);
  if (entries === 0 || first + baseBlocksFor(entries) > slots.length) return set;
  const run = readEntries(slots, first, entries + 1);
  const digest = digestOf(run.subarray(0, entries));
  set.base = { entries, digest, since: run[entries] ?? 0 };
  return set;
}

const NO_TABLE = { table: [] } as const;

/** undefined: it is not within the slots. */
function readTable(
  slots: ArrayTable,
  block: number,
  kind: SetKind,
): Pick<SetRecord, 'table' | 'lookup'> | undefined {
  if (block >= slots.length) return undefined;
  const [length = 0] = readRun(slots, block, 0);
  if (block + blocksFor(length) > slots.length) return undefined;
  if (lookupOf(kind) === undefined) return { table: readRun(slots, block, length).slice(1) };
  const digest = digestOf(readEntries(slots, block, length));
  return { ...NO_TABLE, lookup: { entries: length, digest, shares: undefined } };
}
