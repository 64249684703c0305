// SPDX-License-Identifier: Apache-2.0
// Packets and bytes of each frontend: of its flows that have ended (fl_traffic), and of its established ones. Those
// of half-open flows are added when they are established or end; a flow that is evicted before is not counted.
import { FAMILIES, type Family } from '../../../../model/types.ts';
import { decodeU32, PROTOCOL_NUMBER } from '../../maps/layout.ts';
import { PACKET_SIZE } from '../../maps/packet-layout.ts';
import type { ArrayTable, Tables } from '../../maps/tables.ts';
import type { ElementBatch, FlowTable, FlowTables } from '../flow-tables.ts';
import { type BothWays, readTraffic } from './ended.ts';

export interface TotalsTables {
  readonly flows: FlowTables;
  readonly traffic: ArrayTable;
  readonly frontend: Tables['frontend'];
}

export interface FrontendTotals extends BothWays {
  /** The frontend's address, port and protocol: its id may be another one's later. */
  readonly key: FrontendKey;
}

/** By frontend id. */
export type Totals = ReadonlyMap<number, FrontendTotals>;

type FrontendKey = number | string;

interface Sum {
  readonly id: number;
  readonly key: FrontendKey;
  readonly counts: [packets: number, bytes: number, replyPackets: number, replyBytes: number];
}

/**
 * One reading, in steps of one batch. Ended flows first: one that ends meanwhile is then missing, and
 * neverLess() hides that; in the other order it would count twice.
 */
export function* readTotals(tables: TotalsTables): Generator<undefined, Totals> {
  const sums = new Map<number, FrontendTotals>();
  for (const family of FAMILIES) {
    const frontends = sumsOf(tables, family);
    const { flow, nat } = tables.flows[family];
    yield* addUp(flow.main, (batch) => addFlows(batch, flow.main, { family, frontends }));
    yield* addUp(nat.main, (batch) => addNats(batch, nat.main, { family, frontends }));
    for (const { id, key, counts } of frontends.values()) sums.set(id, totalsOf(key, counts));
  }
  return sums;
}

/** The later reading, with nothing less than in the earlier one. */
export function neverLess(before: Totals | undefined, now: Totals): Totals {
  return new Map(
    [...now].map(([id, totals]): [number, FrontendTotals] => {
      const earlier = before?.get(id);
      if (earlier?.key !== totals.key) return [id, totals];
      const most = countsOf(totals).map((count, at) => Math.max(count, countsOf(earlier)[at] ?? 0));
      return [id, totalsOf(totals.key, most as Sum['counts'])];
    }),
  );
}

const countsOf = ({ toBackend, toClient }: BothWays): Sum['counts'] => [
  ...([toBackend.packets, toBackend.bytes] as const),
  ...([toClient.packets, toClient.bytes] as const),
];

const totalsOf = (
  key: FrontendKey,
  [packets, bytes, replyPackets, replyBytes]: Sum['counts'],
): FrontendTotals => ({
  key,
  toBackend: { packets, bytes },
  toClient: { packets: replyPackets, bytes: replyBytes },
});

type Frontends = ReadonlyMap<FrontendKey, Sum>;

function sumsOf({ frontend, traffic }: TotalsTables, family: Family): Frontends {
  const portAt = family === 'IPv4' ? 4 : 16;
  return new Map(
    frontend[family].readAll().map(({ key: bytes, value }): [FrontendKey, Sum] => {
      const view = viewOf(bytes);
      const key = frontendKey(view, { addressAt: 0, portAt }, bytes[portAt + 2] ?? 0, family);
      const id = decodeU32(value);
      const ended = id < traffic.length ? countsOf(readTraffic(traffic, id)) : undefined;
      return [key, { id, key, counts: ended ?? [0, 0, 0, 0] }];
    }),
  );
}

function* addUp(table: FlowTable, add: (batch: ElementBatch) => void): Generator<undefined> {
  for (const batch of table.batches()) {
    add(batch);
    yield;
  }
}

interface Into {
  readonly family: Family;
  readonly frontends: Frontends;
}

/** Offsets in the keys of flows. */
const tupleOffsets = (family: Family) =>
  family === 'IPv4'
    ? { destination: 4, destinationPort: 10, protocol: 12 }
    : { destination: 16, destinationPort: 34, protocol: 36 };

function addFlows(
  { keys, values, count }: ElementBatch,
  { keySize, valueSize }: FlowTable,
  { family, frontends }: Into,
): void {
  const [key, value] = [viewOf(keys), viewOf(values)];
  const at = tupleOffsets(family);
  for (let index = 0; index < count; index += 1) {
    const from = index * keySize;
    const where = { addressAt: from + at.destination, portAt: from + at.destinationPort };
    const sum = find(frontends, key, where, key.getUint8(from + at.protocol), family);
    if (sum === undefined) continue;
    sum.counts[0] += u64(value, index * valueSize + 24);
    sum.counts[1] += u64(value, index * valueSize + 32);
  }
}

function addNats(
  { keys, values, count }: ElementBatch,
  { keySize, valueSize }: FlowTable,
  { family, frontends }: Into,
): void {
  const value = viewOf(values);
  const protocolAt = tupleOffsets(family).protocol;
  for (let index = 0; index < count; index += 1) {
    const from = index * valueSize;
    const where = { addressAt: from + PACKET_SIZE.nat, portAt: from + 24 };
    const protocol = keys[index * keySize + protocolAt] ?? 0;
    const sum = find(frontends, value, where, protocol, family);
    if (sum === undefined) continue;
    sum.counts[2] += u64(value, from + 8);
    sum.counts[3] += u64(value, from + 16);
  }
}

interface Where {
  readonly addressAt: number;
  readonly portAt: number;
}

/** The frontend of that address, else the one of all addresses of the node. */
function find(
  frontends: Frontends,
  view: DataView,
  where: Where,
  protocol: number,
  family: Family,
): Sum | undefined {
  return (
    frontends.get(frontendKey(view, where, protocol, family)) ??
    frontends.get(anyAddressKey(view.getUint16(where.portAt, true), protocol, family))
  );
}

/** A number for IPv4, whose address, port and protocol fit into 53 bits; a text for IPv6. */
function frontendKey(view: DataView, where: Where, protocol: number, family: Family): FrontendKey {
  const { addressAt } = where;
  const port = view.getUint16(where.portAt, true);
  if (family === 'IPv4') return ipv4Key(view.getUint32(addressAt), port, protocol);
  let text = String.fromCharCode(port, protocol);
  for (let at = 0; at < 16; at += 2) text += String.fromCharCode(view.getUint16(addressAt + at));
  return text;
}

const anyAddressKey = (port: number, protocol: number, family: Family): FrontendKey =>
  family === 'IPv4'
    ? ipv4Key(0, port, protocol)
    : String.fromCharCode(port, protocol, ...new Array<number>(8).fill(0));

const PROTOCOL_CODES = new Map(
  Object.values(PROTOCOL_NUMBER).map((number, code): [number, number] => [number, code + 1]),
);

const ipv4Key = (address: number, port: number, protocol: number): number =>
  (address * 65_536 + port) * 4 + (PROTOCOL_CODES.get(protocol) ?? 0);

const viewOf = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Exact up to 2^53. */
const u64 = (view: DataView, at: number): number =>
  view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
