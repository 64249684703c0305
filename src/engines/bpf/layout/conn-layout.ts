// SPDX-License-Identifier: Apache-2.0
// The structs of bpf/packet/conn/types.h: records of connections and the words of their indexes, as they are in shared
// memory. test/unit/engines/bpf/layout/conn-layout.test.ts compares them with the object's BTF.
import type { Family } from '../../../model/types.ts';

export const CONN_SIZE = {
  conn_life: 8,
  conn: 48,
  conn4: 64,
  conn6: 128,
  conn_traffic: 24,
  client_bucket: 32,
  reply_bucket: 32,
} as const;

/** enum conn_state. */
export const CONN_STATES = [
  ...['new', 'answered', 'established', 'fin-client', 'fin-backend', 'time-wait', 'reopened'],
  ...['shutdown', 'answered-twice', 'closed-by-client', 'closed-by-backend', 'closed'],
] as const;
export type ConnState = (typeof CONN_STATES)[number];

/** What people are told of each state. */
const PHASES: Readonly<Record<ConnState, ConnectionPhase>> = {
  new: 'new',
  answered: 'new',
  'answered-twice': 'new',
  established: 'established',
  reopened: 'half-closed',
  'fin-client': 'half-closed',
  'fin-backend': 'half-closed',
  shutdown: 'half-closed',
  'time-wait': 'closed',
  'closed-by-client': 'closed',
  'closed-by-backend': 'closed',
  closed: 'closed',
};

export type ConnectionPhase = 'new' | 'established' | 'half-closed' | 'closed';

export const phaseOf = (state: ConnState): ConnectionPhase => PHASES[state];

/** A tick of bpf/packet/conn/types.h: nanoseconds of CLOCK_MONOTONIC, shifted. */
export const TICK_SHIFT = 24n;
/** Rounded up, as the programs have it. */
export const TICKS_PER_SECOND = 60;

/** Seconds of CLOCK_MONOTONIC, exact for 834 days. */
export const secondsOf = (tick: number): number => (tick * 2 ** Number(TICK_SHIFT)) / 1e9;

/** Slots of a bucket: slot N of bucket B is of record CONN_SLOTS × B + N. */
export const CONN_SLOTS = 7;

/** Bits of a word of an index, beside its tag; 0 is free. */
export const CONN_HALF = 0x2000_0000;
export const CONN_BUSY = 0x8000_0000;

/** enum conn_address. */
const ADDRESSES = ['client', 'frontend', 'backend', 'reply'] as const;

export interface ConnSide {
  /** 4 or 16 bytes in network order: of the record's own memory. */
  readonly address: Uint8Array;
  readonly port: number;
}

/** One record, and its word of the client's index. What reads many of them fills the same one again and again. */
export class ConnRecord {
  readonly family: Family;
  readonly words: Uint32Array;
  /** Packets and bytes of the client, then of the backend, where they are read. */
  readonly traffic = new Float64Array(4);
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  index = 0;
  word = 0;

  constructor(family: Family) {
    const buffer = new ArrayBuffer(family === 'IPv4' ? CONN_SIZE.conn4 : CONN_SIZE.conn6);
    this.family = family;
    this.words = new Uint32Array(buffer);
    this.#bytes = new Uint8Array(buffer);
    this.#view = new DataView(buffer);
  }

  copy(): ConnRecord {
    const copy = new ConnRecord(this.family);
    copy.words.set(this.words);
    copy.traffic.set(this.traffic);
    copy.index = this.index;
    copy.word = this.word;
    return copy;
  }

  /** Both sides have not confirmed it yet. */
  get isHalfOpen(): boolean {
    return (this.word & CONN_HALF) !== 0;
  }

  get state(): ConnState {
    return CONN_STATES[this.#bytes[0] ?? 0] ?? 'new';
  }

  get isMasqueraded(): boolean {
    return ((this.#bytes[1] ?? 0) & 1) !== 0;
  }

  /** Answers do not come by: in Geneve or IPIP. */
  get isOneSided(): boolean {
    return ((this.#bytes[1] ?? 0) & 6) !== 0;
  }

  /** Requests travel in Geneve or IPIP to the backend, which answers the client itself. */
  get returnsDirectly(): boolean {
    return this.isOneSided;
  }

  /** Of the backend. */
  get generation(): number {
    return this.#view.getUint16(2, true);
  }

  get protocol(): number {
    return this.#bytes[5] ?? 0;
  }

  get proof(): number {
    return this.#view.getUint16(6, true);
  }

  get backendId(): number {
    return this.words[2] ?? 0;
  }

  get frontendId(): number {
    return this.words[3] ?? 0;
  }

  /** Of the latest packet of either side. */
  get seenTick(): number {
    return this.words[4] ?? 0;
  }

  get bornTick(): number {
    return this.words[5] ?? 0;
  }

  /** Of the client, as the network stack of the node sees it between DNAT and SNAT. */
  get middlePort(): number {
    return (this.words[9] ?? 0) & 0xffff;
  }

  /** Of the node itself: no request comes in. */
  get isOwn(): boolean {
    return ((this.words[9] ?? 0) & 0x1_0000) !== 0;
  }

  /** Port 0 of `reply`: no reply slot is claimed yet. */
  side(of: (typeof ADDRESSES)[number]): ConnSide {
    const index = ADDRESSES.indexOf(of);
    const size = this.family === 'IPv4' ? 4 : 16;
    const at = CONN_SIZE.conn + index * size;
    return {
      address: this.#bytes.subarray(at, at + size),
      port: this.#view.getUint16(40 + 2 * index, true),
    };
  }
}
