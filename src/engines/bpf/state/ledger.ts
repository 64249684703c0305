// SPDX-License-Identifier: Apache-2.0
// What is programmed, per service port, and which ids and blocks are allocated. Backends, sets and frontends
// that are removed are retired first and reused only after release(), because a running program may still
// use them. Pure bookkeeping over Tables.
import { exactList } from '../../../lib/compact.ts';
import type { Family, Protocol } from '../../../model/types.ts';
import type { NodeFacts, ServiceKey } from '../../../plan/types.ts';
import type { FrontendId } from '../../entry.ts';
import {
  baseBlocksFor,
  blocksFor,
  decodeFrontendKey,
  type RangeKind,
  type RulePosition,
  type SetKind,
} from '../layout/layout.ts';
import { createServiceRanges, type ServiceRanges } from '../rows/satellites/service-ranges.ts';
import { createIdPool, type IdPool } from './allocation/id-pool.ts';
import { type BlockPool, type BlockRun, createBlockPool } from './allocation/slot-pool.ts';
import { BackendCache, FrontendCache } from './cache.ts';
import type { Tables } from './tables.ts';

/** What a set consists of. */
export interface SetContent {
  readonly kind: SetKind;
  /** Backend ids, ascending. */
  readonly members: readonly number[];
  /** What the kind chooses from, if not from the members: ids, each as often as its weight says, or pairs of both. */
  readonly table: readonly number[];
  /** In place of `table`. */
  readonly lookup?: LookupRecord;
}

/** A lookup table is too large to be kept. */
export interface LookupRecord {
  readonly entries: number;
  /** Of the ids in the kernel. */
  readonly digest: number;
  /** The weights that it was made of, as text; undefined: an earlier agent has made it. */
  shares: string | undefined;
}

/** A lookup table that connections without a record may have been chosen by: see service-port/base.ts. */
export interface BaseRecord {
  readonly entries: number;
  /** Of the ids in the kernel. */
  digest: number;
  /** When the table ceased to be the current one, in seconds since boot. */
  readonly since: number;
}

/** An immutable set in the kernel. */
export interface SetRecord extends SetContent {
  readonly block: number;
  /** Behind it; it may end before the set. */
  base: BaseRecord | undefined;
  /** An audit found the kernel's copy changed: not reused, and retired once no frontend refers to it. */
  isDamaged: boolean;
}

/** Its key and value are in the cache, under its id. */
export interface FrontendRecord {
  /** `10.96.0.10:80/TCP`: see frontendText. */
  readonly text: string;
  readonly id: number;
  readonly sets: Readonly<Record<RulePosition, SetRecord | undefined>>;
}

/** One service port of one family as the kernel holds it. Lists are replaced, never changed. */
export interface PortRecord {
  /** Key of the plan's ServicePortPlan. */
  readonly key: string;
  readonly service: ServiceKey;
  readonly family: Family;
  readonly serviceId: number;
  /** Ids of the ACTIVE and TERMINATING ones, ascending. */
  backends: readonly number[];
  sets: readonly SetRecord[];
  frontends: readonly FrontendRecord[];
  /** Sources that may use those of its frontends that have source ranges. */
  ranges: readonly SourceRange[];
}

/** An element of fl_range. */
export interface SourceRange {
  /** 0: its addresses are pods. */
  readonly serviceId: number;
  /** Canonical, as `198.51.100.0/24`. */
  readonly prefix: string;
  /** Another one is written over it. */
  kind: RangeKind;
  /** undefined: of pods, or of a service port that is not known. */
  readonly owner: PortRecord | undefined;
  /** Deleted after a grace period, unless it is wanted again before. */
  isRetired: boolean;
}

/** A backend in the table that belongs to no service port. */
export interface Orphan {
  readonly family: Family;
  readonly id: number;
}

export interface Retired {
  readonly backends: { readonly family: Family; readonly id: number }[];
  readonly blocks: BlockRun[];
  readonly frontendIds: number[];
  readonly serviceIds: number[];
  readonly ranges: SourceRange[];
}

export interface Caches {
  readonly backend: Readonly<Record<Family, BackendCache>>;
  readonly frontend: FrontendCache;
}

export interface Ledger {
  readonly tables: Tables;
  readonly caches: Caches;
  readonly backendIds: IdPool;
  readonly frontendIds: IdPool;
  readonly serviceIds: IdPool;
  readonly blocks: BlockPool;
  readonly services: Map<ServiceKey, readonly PortRecord[]>;
  /** The port that owns each frontend, by frontend text. */
  readonly owners: Readonly<Record<Family, Map<string, PortRecord>>>;
  /** Backends whose element an audit found changed: not found by their key any more. */
  readonly damagedBackends: Set<number>;
  /** Made for the next apply: see lookup-tables.ts. */
  readonly lookupTables: Map<string, Uint16Array>;
  /** The sets with a base, and some that have had one. */
  readonly bases: Map<SetRecord, PortRecord>;
  retired: Retired;
  /** Of the backends that have ended since takeEnded(). */
  readonly ended: Set<Protocol>;
  /** Frontends whose address is any address of the node. */
  nodePorts: number;
  readonly ranges: ServiceRanges;
  readonly nodes: BackendNodes;
  /** Keys of fl_local_be, by backend id. */
  readonly localBackends: Map<number, Uint8Array>;
  /** Every element of fl_range, by the text of its key. */
  readonly sourceRanges: Map<string, SourceRange>;
  /** Those of pods. */
  podRanges: readonly SourceRange[];
}

/** What is known of the nodes of backends. */
export interface BackendNodes {
  /** As of the last plan; undefined: the nodes are not known yet. */
  peers: NodeFacts['peers'];
  /** Names by backend id, of those that direct return may send to. */
  readonly names: Readonly<Record<Family, Map<number, string>>>;
}

export interface TakenIds {
  readonly backendIds: Iterable<number>;
  readonly frontendIds: Iterable<number>;
  readonly serviceIds: Iterable<number>;
  readonly blocks: Iterable<BlockRun>;
}

const NOTHING: readonly never[] = Object.freeze([]);

export const noneRetired = (): Retired => ({
  backends: [],
  blocks: [],
  frontendIds: [],
  serviceIds: [],
  ranges: [],
});

export const createCaches = (): Caches => ({
  backend: { IPv4: new BackendCache('IPv4'), IPv6: new BackendCache('IPv6') },
  frontend: new FrontendCache(),
});

export function createLedger(tables: Tables, caches: Caches, taken: TakenIds): Ledger {
  return {
    tables,
    caches,
    backendIds: createIdPool(
      Math.min(tables.backend.IPv4.length, tables.backend.IPv6.length, tables.backendStat.length),
      taken.backendIds,
    ),
    frontendIds: createIdPool(
      Math.min(tables.frontendRecord.length, tables.frontendStat.length),
      taken.frontendIds,
    ),
    serviceIds: createIdPool(tables.serviceName.capacity + 1, taken.serviceIds),
    blocks: createBlockPool(tables.slotBlock.length, taken.blocks),
    services: new Map(),
    owners: { IPv4: new Map(), IPv6: new Map() },
    damagedBackends: new Set(),
    lookupTables: new Map(),
    bases: new Map(),
    retired: noneRetired(),
    ended: new Set(),
    nodePorts: 0,
    ranges: createServiceRanges(),
    nodes: { peers: undefined, names: { IPv4: new Map(), IPv6: new Map() } },
    localBackends: new Map(),
    sourceRanges: new Map(),
    podRanges: NOTHING,
  };
}

/** `ns/name:port/TCP/IPv4` -> an empty record of that port. */
export function createPortRecord(
  key: string,
  service: ServiceKey,
  family: Family,
  serviceId: number,
): PortRecord {
  return {
    key,
    service,
    family,
    serviceId,
    backends: NOTHING,
    sets: NOTHING,
    frontends: NOTHING,
    ranges: NOTHING,
  };
}

export function addPort(ledger: Ledger, record: PortRecord): void {
  const others = ledger.services.get(record.service) ?? NOTHING;
  ledger.services.set(record.service, withItem(others, record));
}

export function removePort(ledger: Ledger, record: PortRecord): void {
  const others = without(ledger.services.get(record.service) ?? NOTHING, record);
  if (others.length > 0) ledger.services.set(record.service, others);
  else ledger.services.delete(record.service);
}

export function portOf(ledger: Ledger, service: ServiceKey, key: string): PortRecord | undefined {
  return ledger.services.get(service)?.find((record) => record.key === key);
}

export function* allPorts(ledger: Ledger): Generator<PortRecord> {
  for (const ports of ledger.services.values()) yield* ports;
}

/** What a frontend of the ledger is, from the bytes of its key. */
export const frontendIdOf = (
  { caches }: Ledger,
  { family }: PortRecord,
  { id }: FrontendRecord,
): FrontendId => decodeFrontendKey(caches.frontend.key(id, family), family);

export const frontendOf = (record: PortRecord, text: string): FrontendRecord | undefined =>
  record.frontends.find((frontend) => frontend.text === text);

export const without = <T>(list: readonly T[], item: T): readonly T[] =>
  exactList(list.filter((other) => other !== item));

export const withItem = <T>(list: readonly T[], item: T): readonly T[] =>
  exactList([...list, item]);

/** The service id precedes the members, the number of its entries the table. */
export const blocksOf = (set: Omit<SetContent, 'kind'> & Pick<SetRecord, 'base'>): number =>
  blocksWithoutBase(set) + (set.base === undefined ? 0 : baseBlocksFor(set.base.entries));

const blocksWithoutBase = ({ members, table, lookup }: Omit<SetContent, 'kind'>): number => {
  const entries = lookup?.entries ?? table.length;
  return blocksFor(members.length) + (entries === 0 ? 0 : blocksFor(entries));
};

/** Where the base of a set begins: behind its table. */
export const baseBlock = (set: SetRecord): number => set.block + blocksWithoutBase(set);

/** Where the table of a set begins: in a block of its own. */
export const tableBlock = ({ block, members }: Pick<SetRecord, 'block' | 'members'>): number =>
  block + blocksFor(members.length);

export const isRetiredEmpty = (retired: Retired): boolean =>
  retired.backends.length === 0 &&
  retired.blocks.length === 0 &&
  retired.frontendIds.length === 0 &&
  retired.serviceIds.length === 0 &&
  retired.ranges.length === 0;

/** The protocols of the backends that have ended since the last call, also of those that are released by now. */
export function takeEnded({ ended }: Ledger): readonly Protocol[] {
  const protocols = [...ended];
  ended.clear();
  return protocols;
}

/** Returns what was retired so far; the caller waits for a grace period, then calls release(). */
export function drainRetired(ledger: Ledger): Retired {
  const batch = ledger.retired;
  ledger.retired = noneRetired();
  return batch;
}
