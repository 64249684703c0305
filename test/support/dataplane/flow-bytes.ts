// SPDX-License-Identifier: Apache-2.0
// Flow tables in memory, and the bytes of legs as the packet programs write them (bpf/packet/types.h).
import {
  type ElementBatch,
  type FlowTable,
  type FlowTables,
  latin1,
  type Tiers,
} from '../../../src/dataplane/bpf/flows/flow-tables.ts';
import { LEG_SIZE } from '../../../src/dataplane/bpf/flows/legs.ts';
import {
  ascending,
  encodeTuple,
  type Side,
  TUPLE_SIZE,
  type Tuple,
} from '../../../src/dataplane/bpf/flows/tuple.ts';
import { PACKET_SIZE } from '../../../src/dataplane/bpf/maps/packet-layout.ts';
import type { Leg } from '../../../src/dataplane/connections.ts';
import { addressBytes } from '../../../src/lib/address-bytes.ts';
import type { Family } from '../../../src/model/types.ts';

export interface MemoryFlowTable extends FlowTable {
  put(key: Uint8Array, value: Uint8Array): void;
  readonly size: () => number;
  /** Called before each look-up: what programs do meanwhile. */
  onGet: () => void;
}

export function memoryFlowTable(name: string, keySize: number, valueSize: number): MemoryFlowTable {
  const held = new Map<string, readonly [key: Uint8Array, value: Uint8Array]>();
  return {
    ...{ name, keySize, valueSize },
    onGet: () => undefined,
    size: () => held.size,
    get(key) {
      this.onGet();
      return held.get(latin1(key))?.[1];
    },
    put(key, value) {
      if (key.length !== keySize || value.length !== valueSize)
        throw new TypeError(`${name}: size`);
      held.set(latin1(key), [key, value]);
    },
    delete: (key) => held.delete(latin1(key)),
    *batches(): Generator<ElementBatch> {
      const all = [...held.values()];
      for (let from = 0; from < all.length; from += 2) {
        const some = all.slice(from, from + 2);
        const keys = Buffer.concat(some.map(([key]) => key));
        yield { keys, values: Buffer.concat(some.map(([, value]) => value)), count: some.length };
      }
    },
  };
}

interface MemoryTiers {
  readonly main: MemoryFlowTable;
  readonly halfOpen: MemoryFlowTable;
}

export interface MemoryFlowTables extends FlowTables {
  readonly IPv4: Readonly<Record<Leg, MemoryTiers>>;
  readonly IPv6: Readonly<Record<Leg, MemoryTiers>>;
}

export function memoryFlowTables(): MemoryFlowTables {
  const tiers = (leg: Leg, family: Family): MemoryTiers => {
    const make = (prefix: string): MemoryFlowTable =>
      memoryFlowTable(`${prefix}${leg}${family.at(-1)}`, TUPLE_SIZE[family], LEG_SIZE[leg][family]);
    return { main: make('fl_'), halfOpen: make('fl_new_') };
  };
  const of = (family: Family): Record<Leg, MemoryTiers> => ({
    flow: tiers('flow', family),
    nat: tiers('nat', family),
    snat: tiers('snat', family),
  });
  return { IPv4: of('IPv4'), IPv6: of('IPv6') };
}

export const TCP = 6;
export const UDP = 17;

/** `10.0.0.1:80`, `[fd00::1]:80`. */
export function side(text: string): Side {
  const at = text.lastIndexOf(':');
  const address = text.slice(0, at).replace(/^\[|\]$/g, '');
  const family = address.includes(':') ? 'IPv6' : 'IPv4';
  return { address: addressBytes(address, family), port: Number(text.slice(at + 1)) };
}

export const tuple = (source: string, destination: string, protocol = TCP): Tuple => ({
  source: side(source),
  destination: side(destination),
  protocol,
});

const STATES = { new: 0, established: 1, 'half-closed': 2, closed: 3 } as const;

/** One flow as it would be in all three tables. */
export interface FlowFacts {
  readonly client: string;
  readonly frontend: string;
  readonly backend: string;
  readonly protocol?: number;
  /** The address that the backend sees; undefined: not masqueraded. */
  readonly snat?: string;
  readonly clientPort?: number;
  readonly state?: keyof typeof STATES;
  readonly ids?: {
    readonly backendId: number;
    readonly serviceId: number;
    readonly frontendId: number;
    readonly generation: number;
  };
  readonly flowFlags?: number;
  readonly natFlags?: number;
  readonly bornSeconds?: number;
  readonly seenSeconds?: number;
  readonly toBackend?: readonly [packets: number, bytes: number];
  readonly toClient?: readonly [packets: number, bytes: number];
}

export const MASQUERADE = 1;
export const CLIENT_FIN = 2;
export const CLIENT_RESET = 4;
export const RETURNS_DIRECTLY = 16;
export const REPLIED = 4;
export const BACKEND_FIN = 8;
export const BACKEND_RESET = 16;
/** Of the snat leg's backend_end. */
const ANSWERED = 4;

/** Keys and values of its legs, without the checks, which readers do not verify. */
export function legsOf(
  facts: FlowFacts,
): Record<Leg, readonly [key: Uint8Array, value: Uint8Array]> {
  const { protocol = TCP, snat, bornSeconds = 0, seenSeconds = bornSeconds } = facts;
  const [client, frontend, backend] = [facts.client, facts.frontend, facts.backend].map(side) as [
    Side,
    Side,
    Side,
  ];
  const family = client.address.length === 4 ? 'IPv4' : 'IPv6';
  const seen: Side = { address: client.address, port: facts.clientPort ?? client.port };
  const masqueraded = snat === undefined ? undefined : side(snat);
  const natKey = ascending({ source: seen, destination: backend, protocol });
  const key = (source: Side, destination: Side): Uint8Array =>
    encodeTuple({ source, destination, protocol }, family);
  const value = (leg: Leg, write: (view: DataView, bytes: Uint8Array) => void): Uint8Array => {
    const bytes = new Uint8Array(LEG_SIZE[leg][family]);
    write(new DataView(bytes.buffer), bytes);
    return bytes;
  };
  const flow = value('flow', (view, bytes) => {
    const ids = facts.ids ?? { backendId: 1, serviceId: 1, frontendId: 1, generation: 1 };
    for (const [at, word] of [ids.backendId, ids.serviceId, ids.frontendId].entries()) {
      view.setUint32(4 + 4 * at, word, true);
    }
    view.setUint32(16, seenSeconds, true);
    view.setUint32(20, bornSeconds, true);
    writeCounts(view, 24, facts.toBackend);
    view.setUint16(40, backend.port, true);
    view.setUint16(42, ids.generation, true);
    view.setUint16(44, seen.port, true);
    view.setUint8(46, STATES[facts.state ?? 'established']);
    view.setUint8(47, (facts.flowFlags ?? 0) | (masqueraded ? MASQUERADE : 0));
    bytes.set(backend.address, 48);
  });
  const nat = value('nat', (view, bytes) => {
    view.setUint32(4, seenSeconds, true);
    writeCounts(view, 8, facts.toClient);
    view.setUint16(24, frontend.port, true);
    view.setUint16(26, masqueraded?.port ?? 0, true);
    view.setUint16(28, client.port, true);
    const flags = Number(natKey.source === seen) | (masqueraded ? 2 : 0);
    view.setUint8(30, (facts.natFlags ?? REPLIED) | flags);
    bytes.set(frontend.address, PACKET_SIZE.nat);
    if (masqueraded) bytes.set(masqueraded.address, PACKET_SIZE.nat + frontend.address.length);
  });
  const snatLeg = value('snat', (view, bytes) => {
    view.setUint32(4, seenSeconds, true);
    view.setUint16(8, seen.port, true);
    view.setUint8(11, (facts.natFlags ?? REPLIED) & REPLIED ? ANSWERED : 0);
    bytes.set(client.address, 12);
  });
  return {
    flow: [key(client, frontend), flow],
    nat: [encodeTuple(natKey, family), nat],
    snat: [key(backend, masqueraded ?? seen), snatLeg],
  };
}

function writeCounts(view: DataView, at: number, counts: readonly number[] = [0, 0]): void {
  for (const [word, count] of counts.entries()) {
    view.setBigUint64(at + 8 * word, BigInt(count), true);
  }
}

/** Puts the legs of a flow, all of them unless told which, into the main tables or the half-open ones. */
export function putFlow(
  tables: FlowTables,
  facts: FlowFacts,
  tier: keyof Tiers = 'main',
  only: readonly Leg[] = ['flow', 'nat', ...(facts.snat === undefined ? [] : (['snat'] as const))],
): void {
  const family: Family = facts.client.startsWith('[') ? 'IPv6' : 'IPv4';
  const legs = legsOf(facts);
  for (const leg of only) tables[family][leg][tier].put(...legs[leg]);
}
