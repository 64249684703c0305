// SPDX-License-Identifier: Apache-2.0
// Packets and bytes of each frontend: of its connections that have ended (fl_traffic), and of those that live.
import { FAMILIES, type Family } from '../../../../model/types.ts';
import type { ConnTables } from '../../conn/conn-table.ts';
import { readConns } from '../../conn/reader.ts';
import type { ConnRecord } from '../../layout/conn-layout.ts';
import { decodeU32, PROTOCOL_NUMBER } from '../../layout/layout.ts';
import type { ArrayTable, Tables } from '../../state/tables.ts';
import { type BothWays, readTraffic } from './ended.ts';

export interface TotalsTables {
  /** As they are now: the key of their proofs is written by the first sync. */
  readonly conns: () => ConnTables;
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
 * One reading, in steps. Ended connections first: one that ends meanwhile is then missing, and neverLess() hides that;
 * in the other order it would count twice.
 */
export function* readTotals(tables: TotalsTables): Generator<undefined, Totals> {
  const sums = new Map<number, FrontendTotals>();
  const conns = tables.conns();
  for (const family of FAMILIES) {
    const frontends = sumsOf(tables, family);
    for (const _ of readConns(conns[family], (record) => add(record, frontends))) yield undefined;
    for (const { id, key, counts } of frontends.values()) sums.set(id, totalsOf(key, counts));
  }
  return sums;
}

function add(record: ConnRecord, frontends: Frontends): void {
  const { address, port } = record.side('frontend');
  const view = viewOf(address);
  const sum = find(frontends, { view, port, protocol: record.protocol, family: record.family });
  if (sum === undefined) return;
  for (let at = 0; at < sum.counts.length; at += 1) {
    sum.counts[at] = (sum.counts[at] ?? 0) + (record.traffic[at] ?? 0);
  }
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
      const [port, protocol] = [view.getUint16(portAt, true), bytes[portAt + 2] ?? 0];
      const key = frontendKey({ view, port, protocol, family });
      const id = decodeU32(value);
      const ended = id < traffic.length ? countsOf(readTraffic(traffic, id)) : undefined;
      return [key, { id, key, counts: ended ?? [0, 0, 0, 0] }];
    }),
  );
}

interface Where {
  /** Of the address. */
  readonly view: DataView;
  readonly port: number;
  readonly protocol: number;
  readonly family: Family;
}

/** The frontend of that address, else the one of all addresses of the node. */
const find = (frontends: Frontends, where: Where): Sum | undefined =>
  frontends.get(frontendKey(where)) ??
  frontends.get(anyAddressKey(where.port, where.protocol, where.family));

/** A number for IPv4, whose address, port and protocol fit into 53 bits; a text for IPv6. */
function frontendKey({ view, port, protocol, family }: Where): FrontendKey {
  if (family === 'IPv4') return ipv4Key(view.getUint32(0), port, protocol);
  let text = String.fromCharCode(port, protocol);
  for (let at = 0; at < 16; at += 2) text += String.fromCharCode(view.getUint16(at));
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
