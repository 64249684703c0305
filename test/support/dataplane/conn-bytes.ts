// SPDX-License-Identifier: Apache-2.0
// A table of connections in memory, and records as the packet programs write them (bpf/packet/conn/types.h).

import type { ConnTables } from '../../../src/engines/bpf/conn/conn-table.ts';
import { proofOf } from '../../../src/engines/bpf/conn/proof.ts';
import type { Side } from '../../../src/engines/bpf/flows/side.ts';
import {
  CONN_HALF,
  CONN_SIZE,
  CONN_SLOTS,
  CONN_STATES,
  type ConnState,
  TICK_SHIFT,
} from '../../../src/engines/bpf/layout/conn-layout.ts';
import type { ChunkMemory } from '../../../src/engines/bpf/state/chunked-mmap.ts';
import { addressBytes } from '../../../src/lib/address-bytes.ts';
import { FAMILIES, type Family } from '../../../src/model/types.ts';

export const TCP = 6;
export const UDP = 17;

/** `10.0.0.1:80`, `[fd00::1]:80`. */
export function side(text: string): Side {
  const at = text.lastIndexOf(':');
  const address = text.slice(0, at).replace(/^\[|\]$/g, '');
  const family = address.includes(':') ? 'IPv6' : 'IPv4';
  return { address: addressBytes(address, family), port: Number(text.slice(at + 1)) };
}

export interface ConnFacts {
  readonly client: string;
  readonly frontend: string;
  readonly backend: string;
  readonly protocol?: number;
  /** The address that the backend sees; undefined: not masqueraded. */
  readonly snat?: string;
  /** Of the client, between DNAT and SNAT. */
  readonly middlePort?: number;
  readonly state?: ConnState;
  readonly isHalfOpen?: boolean;
  readonly isMasqueraded?: boolean;
  readonly returnsDirectly?: boolean;
  readonly ids?: {
    readonly backendId: number;
    readonly frontendId: number;
    readonly generation: number;
  };
  readonly bornSeconds?: number;
  readonly seenSeconds?: number;
  readonly toBackend?: readonly [packets: number, bytes: number];
  readonly toClient?: readonly [packets: number, bytes: number];
}

const SECRET = 0x0123_4567_89ab_cdefn;
/** As many as a mapping of one chunk holds records of. */
const BUCKETS = 64;
const CHUNK = 65_536;
const tickOf = (seconds: number): number =>
  Number(((BigInt(seconds) * 1_000_000_000n) >> TICK_SHIFT) & 0xffff_ffffn);

interface Memory extends ChunkMemory {
  readonly buffer: ArrayBuffer;
}

/** A mapping is the memory itself. */
function chunk(): Memory {
  const buffer = new ArrayBuffer(CHUNK);
  return { buffer, map: () => buffer, unmap: () => undefined };
}

export interface MemoryConns {
  readonly tables: ConnTables;
  /** A connection of the same client and frontend takes its place. */
  put(facts: ConnFacts): void;
  clear(): void;
  /** Called before each mapping of an index. */
  onMap: () => void;
}

export function memoryConns(): MemoryConns {
  const of = (family: Family) => {
    const client = chunk();
    return {
      ...{ family, buckets: BUCKETS, conn: chunk(), traffic: chunk() },
      proof: proofOf(family, SECRET),
      client: {
        ...client,
        map: () => {
          conns.onMap();
          return client.buffer;
        },
      },
    };
  };
  const memory = { IPv4: of('IPv4'), IPv6: of('IPv6') };
  const slots: Record<Family, string[]> = { IPv4: [], IPv6: [] };
  const conns: MemoryConns = {
    tables: memory,
    onMap: () => undefined,
    put(facts) {
      const family: Family = facts.client.startsWith('[') ? 'IPv6' : 'IPv4';
      const key = `${facts.protocol ?? TCP} ${facts.client} ${facts.frontend}`;
      if (!slots[family].includes(key)) slots[family].push(key);
      const index = slots[family].indexOf(key);
      const { client, conn, traffic, proof } = memory[family];
      const size = family === 'IPv4' ? CONN_SIZE.conn4 : CONN_SIZE.conn6;
      const words = new Uint32Array(conn.buffer, index * size, size / 4);
      writeRecord(words, facts);
      words[1] = ((words[1] ?? 0) & 0xffff) | (proof(words) << 16);
      const { toBackend = [0, 0], toClient = [0, 0] } = facts;
      const counts = trafficWords([...toBackend, ...toClient]);
      new Uint32Array(traffic.buffer, index * CONN_SIZE.conn_traffic, 6).set(counts);
      const at = Math.floor(index / CONN_SLOTS) * (CONN_SLOTS + 1) + (index % CONN_SLOTS);
      new Uint32Array(client.buffer)[at] = 1 | (facts.isHalfOpen ? CONN_HALF : 0);
    },
    clear() {
      for (const family of FAMILIES) {
        slots[family] = [];
        new Uint8Array(memory[family].client.buffer).fill(0);
      }
    },
  };
  return conns;
}

/** struct conn_traffic. */
export function trafficWords([packets, bytes, replyPackets, replyBytes]: readonly [
  packets: number,
  bytes: number,
  replyPackets: number,
  replyBytes: number,
]): readonly number[] {
  const upper = (ofBytes: number, ofPackets: number): number =>
    Math.floor(ofBytes / 2 ** 32) + Math.floor(ofPackets / 2 ** 32) * 2 ** 22;
  return [
    ...[bytes, upper(bytes, packets), packets, replyPackets],
    ...[replyBytes, upper(replyBytes, replyPackets)],
  ];
}

function writeRecord(words: Uint32Array, facts: ConnFacts): void {
  words.fill(0);
  const bytes = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
  const view = new DataView(words.buffer, words.byteOffset, words.byteLength);
  const { protocol = TCP, snat, bornSeconds = 0, seenSeconds = bornSeconds } = facts;
  const ids = facts.ids ?? { backendId: 1, frontendId: 1, generation: 1 };
  const [client, frontend, backend] = [facts.client, facts.frontend, facts.backend].map(side);
  if (client === undefined || frontend === undefined || backend === undefined) return;
  const middlePort = facts.middlePort ?? client.port;
  const isMasqueraded = facts.isMasqueraded ?? snat !== undefined;
  const own = isMasqueraded
    ? { address: new Uint8Array(), port: 0 }
    : { ...client, port: middlePort };
  const reply = snat === undefined ? own : side(snat);
  bytes[0] = CONN_STATES.indexOf(facts.state ?? 'established');
  bytes[1] = Number(isMasqueraded) | (facts.returnsDirectly ? 2 : 0);
  view.setUint16(2, ids.generation, true);
  bytes[5] = protocol;
  view.setUint32(8, ids.backendId, true);
  view.setUint32(12, ids.frontendId, true);
  view.setUint32(16, tickOf(seenSeconds), true);
  view.setUint32(20, tickOf(bornSeconds), true);
  view.setUint16(36, middlePort, true);
  for (const [at, one] of [client, frontend, backend, reply].entries()) {
    view.setUint16(40 + 2 * at, one.port, true);
    bytes.set(one.address, 48 + at * client.address.length);
  }
}
