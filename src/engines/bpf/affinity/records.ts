// SPDX-License-Identifier: Apache-2.0
// The records of fl_affinity <-> what session affinity remembers. Pure. A record of sockets has the cookie of their
// network namespace in place of an address.
import { addressText, writeAddress } from '../../../lib/address-bytes.ts';
import { familyOf } from '../../../lib/ip.ts';
import type { Family } from '../../../model/types.ts';
import type { AffinityPort, Remembered } from '../../predecessor.ts';
import type { BackendView, FrontendView, PortId, Snapshot } from '../../snapshot.ts';

export interface AffinityRecord {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

/** The sockets of a network namespace, that of a pod or of the node, as a client. */
export interface SocketClient {
  readonly cookie: bigint;
  /** Its packets have one of these; the first of a family is the one that its connections elsewhere have. */
  readonly addresses: readonly string[];
}

export interface Programmed {
  readonly ports: readonly AffinityPort[];
  readonly sockets: readonly SocketClient[];
  /** The record of a backend: by its id, or by its port and text. */
  readonly byId: ReadonlyMap<string, KnownBackend>;
  readonly byName: ReadonlyMap<string, KnownBackend>;
}

interface KnownBackend {
  readonly port: PortId;
  readonly backend: string;
  readonly id: number;
  readonly generation: number;
  readonly serviceId: number;
}

/** @param serviceIdOf of a backend, by family and id */
export function programmedOf(
  { frontends, backends }: Snapshot,
  serviceIdOf: (family: Family, id: number) => number,
  sockets: readonly SocketClient[],
): Programmed {
  const seconds = affinityOf(frontends);
  const known = backends
    .filter(({ port, state }) => state === 'active' && seconds.has(portText(port)))
    .flatMap((view) => knownBackend(view, serviceIdOf));
  const ports = [...seconds].map(([text, { port, affinitySeconds }]) => ({
    port,
    seconds: affinitySeconds,
    backends: known.filter((one) => portText(one.port) === text).map(({ backend }) => backend),
  }));
  return {
    ports,
    sockets,
    byId: new Map(known.map((one) => [idText(one.port.family, one.id), one])),
    byName: new Map(known.map((one) => [`${portText(one.port)} ${one.backend}`, one])),
  };
}

function affinityOf(frontends: readonly FrontendView[]): ReadonlyMap<string, FrontendView> {
  const found = frontends.filter(({ affinitySeconds }) => affinitySeconds > 0);
  return new Map(found.map((view) => [portText(view.port), view]));
}

const portText = ({ namespace, name, portName, protocol, family }: PortId): string =>
  `${namespace}/${name}:${portName}/${protocol}/${family}`;

const idText = (family: Family, id: number): string => `${family} ${id}`;

function knownBackend(
  { port, backend, id, generation }: BackendView,
  serviceIdOf: (family: Family, id: number) => number,
): readonly KnownBackend[] {
  if (id === undefined || generation === undefined) return [];
  return [{ port, backend, id, generation, serviceId: serviceIdOf(port.family, id) }];
}

const FAMILY: Readonly<Record<number, Family>> = { 4: 'IPv4', 6: 'IPv6' };
/** 100::COOKIE, see set_netns_source() in bpf/common/frontend.h. */
const SOCKETS = [1, 0, 0, 0, 0, 0, 0, 0];

/** Those that are still remembered. */
export function rememberedBy(
  { ports, sockets, byId }: Programmed,
  records: Iterable<AffinityRecord>,
  nowNs: bigint,
): readonly Remembered[] {
  const limits = new Map(ports.map(({ port, seconds }) => [portText(port), seconds]));
  return [...records].flatMap(({ key, value }) => {
    const [keys, values] = [viewOf(key), viewOf(value)];
    const family = FAMILY[keys.getUint32(20, true)];
    const found = family && byId.get(idText(family, values.getUint32(0, true)));
    if (found === undefined || found.serviceId !== keys.getUint32(16, true)) return [];
    if (found.generation !== values.getUint16(4, true)) return [];
    const { port, backend } = found;
    const client = clientOf(key, port.family, sockets);
    const ageSeconds = Math.max(0, Number(nowNs - seenNs(value)) / 1e9);
    if (client === undefined || ageSeconds >= (limits.get(portText(port)) ?? 0)) return [];
    return [{ port, backend, client, ageSeconds }];
  });
}

/** undefined: the network namespace is gone, or not known. */
function clientOf(
  key: Uint8Array,
  family: Family,
  sockets: readonly SocketClient[],
): string | undefined {
  if (!SOCKETS.every((byte, at) => key[at] === byte)) {
    return addressText(family === 'IPv4' ? key.slice(12, 16) : key.slice(0, 16));
  }
  const cookie = viewOf(key).getBigUint64(8);
  const found = sockets.find((one) => one.cookie === cookie);
  return found?.addresses.find((address) => familyOf(address) === family);
}

/** Of the same client the one that was seen last counts. What is not programmed is left out. */
export function recordsOf(
  programmed: Programmed,
  all: readonly Remembered[],
  nowNs: bigint,
): readonly AffinityRecord[] {
  const records = new Map<string, AffinityRecord>();
  for (const one of all.toSorted((a, b) => b.ageSeconds - a.ageSeconds)) {
    const found = programmed.byName.get(`${portText(one.port)} ${one.backend}`);
    if (found === undefined) continue;
    const value = encodedValue(found, nowNs - BigInt(Math.round(one.ageSeconds * 1e9)));
    for (const client of clientBytes(one, programmed.sockets)) {
      const key = encodedKey(client, found);
      records.set(key.join(), { key, value });
    }
  }
  return [...records.values()];
}

/** @param there the value that the programs, or an earlier agent, have written for the same client */
export const isNewer = ({ value }: AffinityRecord, there: Uint8Array | undefined): boolean =>
  there === undefined || seenNs(value) > seenNs(there);

const seenNs = (value: Uint8Array): bigint => viewOf(value).getBigUint64(8, true);

/** Of packets, and of the sockets behind that address. */
function clientBytes(
  { client, port }: Remembered,
  sockets: readonly SocketClient[],
): readonly Uint8Array[] {
  const address = new Uint8Array(16);
  if (port.family === 'IPv4') address.set([255, 255], 10);
  writeAddress(address, port.family === 'IPv4' ? 12 : 0, client, port.family);
  const behind = sockets.filter(({ addresses }) => addresses.includes(client));
  return [address, ...behind.map(({ cookie }) => socketBytes(cookie))];
}

function socketBytes(cookie: bigint): Uint8Array {
  const bytes = Uint8Array.of(...SOCKETS, ...SOCKETS);
  viewOf(bytes).setBigUint64(8, cookie);
  return bytes;
}

function encodedKey(client: Uint8Array, { serviceId, port }: KnownBackend): Uint8Array {
  const key = new Uint8Array(24);
  key.set(client);
  viewOf(key).setUint32(16, serviceId, true);
  viewOf(key).setUint32(20, port.family === 'IPv4' ? 4 : 6, true);
  return key;
}

function encodedValue({ id, generation }: KnownBackend, seen: bigint): Uint8Array {
  const value = new Uint8Array(16);
  viewOf(value).setUint32(0, id, true);
  viewOf(value).setUint16(4, generation, true);
  viewOf(value).setBigUint64(8, seen > 0n ? seen : 0n, true);
  return value;
}

const viewOf = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
