// SPDX-License-Identifier: Apache-2.0
// The sweep for kernels that do not load bpf/packet/sweep.bpf.c (before 5.14): reads the tables in batches and deletes what has
// expired, and legs that no flow leads to. What a batch says is looked up again before it is deleted.
import { FAMILIES, type Family } from '../../../../model/types.ts';
import type { Leg } from '../../../connections.ts';
import type { Swept } from '../../maps/packet-layout.ts';
import type { ArrayTable } from '../../maps/tables.ts';
import {
  deleteLeg,
  type ElementBatch,
  type FlowTable,
  type FlowTables,
  findLeg,
} from '../flow-tables.ts';
import {
  equals,
  flowTuple,
  joinFlow,
  natTuple,
  snatKeyOf,
  snatToNatTuple,
  withSnat,
} from '../join.ts';
import { decodeFlow, decodeNat, decodeSnat, reservedSnat } from '../legs.ts';
import { addTraffic } from '../traffic/ended.ts';
import { decodeTuple, encodeTuple, TUPLE_SIZE } from '../tuple.ts';
import {
  ageOf,
  hasExpired,
  type Moment,
  RESERVED_SECONDS,
  type Timeouts,
  timeoutOf,
} from './expiry.ts';
import type { Recount } from './recount.ts';
import type { Sweep } from './sweep.ts';

export interface BatchSweepOptions {
  readonly flows: FlowTables;
  /** fl_traffic. */
  readonly traffic: ArrayTable;
  readonly timeouts: Timeouts;
  /** undefined: nobody asks how many flows a backend has. */
  readonly recount?: Pick<Recount, 'meet' | 'end'>;
  /** CLOCK_MONOTONIC. */
  readonly nowSeconds: () => number;
}

const LEGS: readonly Leg[] = ['flow', 'nat', 'snat'];
/** Offset of `seen_seconds` in the values, and of the protocol behind both ends in the keys. */
const SEEN_AT: Readonly<Record<Leg, number>> = { flow: 16, nat: 4, snat: 4 };
const protocolAt = (family: Family): number => (family === 'IPv4' ? 12 : 36);

export const createBatchSweep = (options: BatchSweepOptions): Sweep => new BatchSweep(options);

class BatchSweep implements Sweep {
  readonly #options: BatchSweepOptions;
  #round: Generator<undefined>;
  #taken = 0;
  /** Of the last round: a batch at a time, and an empty one for each table. */
  #steps = FAMILIES.length * LEGS.length * 2;
  readonly #used = new Map<string, number>();
  #total: Swept = { entries: 0, expired: 0, orphans: 0 };

  constructor(options: BatchSweepOptions) {
    this.#options = options;
    this.#round = this.#tables();
  }

  get steps(): number {
    return this.#steps;
  }

  step(): boolean {
    if (this.#round.next().done !== true) {
      this.#taken += 1;
      return false;
    }
    this.#steps = Math.max(1, this.#taken);
    this.#taken = 0;
    this.#round = this.#tables();
    return true;
  }

  total(): Swept {
    return this.#total;
  }

  used(): ReadonlyMap<string, number> {
    return this.#used;
  }

  *#tables(): Generator<undefined> {
    for (const family of FAMILIES) {
      for (const leg of LEGS) {
        const { main, halfOpen } = this.#options.flows[family][leg];
        yield* this.#table(halfOpen, leg, family);
        yield* this.#table(main, leg, family);
      }
    }
  }

  *#table(table: FlowTable, leg: Leg, family: Family): Generator<undefined> {
    let left = 0;
    for (const batch of table.batches()) {
      const { timeouts, recount, nowSeconds } = this.#options;
      if (leg === 'flow') recount?.meet(batch, table.valueSize, family);
      const moment = { timeouts, nowSeconds: nowSeconds() };
      const old = [...oldKeys(batch, table, { leg, family, moment })];
      const deleted = old.filter((key) => this.#sweep(key, { leg, family, moment })).length;
      this.#count('entries', batch.count);
      left += batch.count - deleted;
      yield;
    }
    this.#used.set(table.name, left);
  }

  /** True if it is deleted. */
  #sweep(key: Uint8Array, { leg, family, moment }: Sought): boolean {
    switch (leg) {
      case 'flow':
        return this.#sweepFlow(key, family, moment);
      case 'nat':
        return this.#sweepNat(key, family);
      case 'snat':
        return this.#sweepSnat(key, family, moment);
    }
  }

  /** The flow leg first: a request that found it alone would make the other legs again. */
  #sweepFlow(key: Uint8Array, family: Family, moment: Moment): boolean {
    const { flows, traffic, recount } = this.#options;
    const joined = joinFlow(flows, family, key);
    if (joined === undefined) return false;
    const { flow, nat, snat } = joined;
    if (!hasExpired(joined, decodeTuple(key, family).protocol, moment)) return false;
    if (!deleteLeg(flows[family].flow, key)) return false;
    recount?.end(flow.leg, family);
    if (nat !== undefined) deleteLeg(flows[family].nat, nat.key);
    if (snat !== undefined) this.#endSnat(snat.key, family);
    const toClient = nat?.leg ?? { packets: 0, bytes: 0 };
    addTraffic(traffic, flow.leg.frontendId, { toBackend: flow.leg, toClient });
    this.#count('expired', 1);
    return true;
  }

  #sweepNat(key: Uint8Array, family: Family): boolean {
    const { flows } = this.#options;
    const value = findLeg(flows[family].nat, key);
    if (value === undefined) return false;
    const leg = decodeNat(value, family);
    const flowKey = encodeTuple(flowTuple(decodeTuple(key, family), leg), family);
    const flow = findLeg(flows[family].flow, flowKey);
    if (flow !== undefined) {
      const owner = natTuple(decodeTuple(flowKey, family), decodeFlow(flow, family));
      if (equals(encodeTuple(owner, family), key)) return false;
    }
    const { snat } = withSnat(flows, family, { key, leg });
    if (snat !== undefined) this.#endSnat(snat.key, family);
    deleteLeg(flows[family].nat, key);
    this.#count('orphans', 1);
    return true;
  }

  /** As end_own_snat() in bpf/packet/flow/legs.h. */
  #endSnat(key: Uint8Array, family: Family): void {
    const tiers = this.#options.flows[family].snat;
    const value = findLeg(tiers, key);
    if (value === undefined) return;
    if (!decodeSnat(value, family).isInTimeWait) {
      deleteLeg(tiers, key);
      return;
    }
    tiers.halfOpen.put(key, reservedSnat(value));
    tiers.main.delete(key);
  }

  #sweepSnat(key: Uint8Array, family: Family, { nowSeconds }: Moment): boolean {
    const { flows } = this.#options;
    const value = findLeg(flows[family].snat, key);
    if (value === undefined) return false;
    const leg = decodeSnat(value, family);
    const tuple = snatToNatTuple(decodeTuple(key, family), leg);
    const nat = findLeg(flows[family].nat, encodeTuple(tuple, family));
    const owned = nat && snatKeyOf(tuple, decodeNat(nat, family), family);
    const isKept = leg.isReserved
      ? ageOf(nowSeconds, leg.seenSeconds) <= RESERVED_SECONDS
      : owned !== undefined && equals(owned, key);
    if (isKept) return false;
    deleteLeg(flows[family].snat, key);
    this.#count('orphans', 1);
    return true;
  }

  #count(what: keyof Swept, by: number): void {
    this.#total = { ...this.#total, [what]: this.#total[what] + by };
  }
}

interface Sought {
  readonly leg: Leg;
  readonly family: Family;
  readonly moment: Moment;
}

/** Copies of the keys of elements that may be deleted: a flow after the least of its times, a leg after that of half-open ones. */
function* oldKeys(
  { keys, values, count }: ElementBatch,
  { valueSize }: FlowTable,
  { leg, family, moment }: Sought,
): Generator<Uint8Array> {
  const keySize = TUPLE_SIZE[family];
  const view = new DataView(values.buffer, values.byteOffset, values.byteLength);
  const least = leg === 'flow' ? Math.min(...Object.values(moment.timeouts)) : 0;
  for (let index = 0; index < count; index += 1) {
    const age = ageOf(moment.nowSeconds, view.getUint32(index * valueSize + SEEN_AT[leg], true));
    const protocol = keys[index * keySize + protocolAt(family)] ?? 0;
    const limit = leg === 'flow' ? least : timeoutOf(moment.timeouts, protocol, 'new');
    if (age > limit) yield keys.slice(index * keySize, (index + 1) * keySize);
  }
}
