// SPDX-License-Identifier: Apache-2.0
// One record of a connection and the packets that it follows, by bpf/test/states.bpf.c. Records and packets are plain
// values; each call writes both into shared memory, runs the program once and reads the record back.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { PROTOCOL_NUMBER } from '../../../../../src/engines/bpf/layout/layout.ts';
import type { Protocol } from '../../../../../src/model/types.ts';
import { openObject } from '../../../../../src/sys/native.ts';

export const statesObject = fileURLToPath(
  new URL('../../../../../build/bpf-test/states.bpf.o', import.meta.url),
);

/** By their numbers in C. */
export const STATES = [
  ...['NEW', 'ANSWERED', 'ESTABLISHED', 'FIN_CLIENT', 'FIN_BACKEND', 'TIME_WAIT', 'REOPENED'],
  ...['SHUTDOWN', 'ANSWERED_TWICE', 'CLOSED_BY_CLIENT', 'CLOSED_BY_BACKEND', 'CLOSED'],
] as const;
export const EVENTS = [
  ...['none', 'client late', 'client SYN', 'client data', 'client again', 'client FIN'],
  ...['client RST', 'client done', 'backend late', 'backend SYN-ACK', 'backend data'],
  ...['backend FIN', 'backend RST', 'backend done'],
] as const;
export const LIVENESS = ['half-open', 'lives', 'half-closed', 'ended', 'expired'] as const;
const EFFECTS = ['syn', 'anew', 'takes', 'begins', 'leaves', 'behind', 'resumes', 'confirms'];
const FLAG = { masquerade: 1, directReturn: 2, ipip: 4 } as const;
const BACKEND = { FREE: 0, ACTIVE: 1, TERMINATING: 2, GONE: 3 } as const;
const CHUNK = {
  ...{ DATA: 0, INIT: 1, INIT_ACK: 2, ABORT: 6, SHUTDOWN: 7, SHUTDOWN_ACK: 8, COOKIE_ECHO: 10 },
  ...{ COOKIE_ACK: 11, SHUTDOWN_COMPLETE: 14 },
} as const;
export type Chunk = keyof typeof CHUNK;

/** Seconds: each is another one. */
export const TIMEOUTS = {
  ...{ tcpNew: 20, tcpEstablished: 86_400, tcpHalfClosed: 3600, tcpClosed: 10 },
  ...{ udpNew: 30, udpEstablished: 180 },
} as const;
export const RESERVED_SECONDS = 120;
export const TICKS_PER_SECOND = 60;

export interface Conn {
  readonly protocol: Protocol;
  readonly state: string;
  /** The state before a RST. */
  readonly before?: string;
  readonly flags?: readonly (keyof typeof FLAG)[];
  readonly generation?: number;
  readonly syn?: number;
  readonly proof?: number;
  /** Ticks. */
  readonly seen?: number;
  readonly born?: number;
  readonly progressClient?: number;
  readonly progressBackend?: number;
}

export interface Packet {
  readonly from: 'client' | 'backend';
  /** Of TCP: `S`, `F`, `R` and `A`. */
  readonly flags?: string;
  readonly sequence?: number;
  readonly acknowledged?: number;
  readonly chunk?: Chunk;
  readonly tag?: number;
  /** Tick. */
  readonly now?: number;
  readonly backend?: keyof typeof BACKEND;
}

export interface Followed {
  readonly conn: Required<Omit<Conn, 'flags'>>;
  readonly effects: readonly string[];
  readonly event: string;
  readonly liveness: string;
  readonly isConfirmed: boolean;
}

/** Upper halves of what a segment has, as the record knows them. */
export const progressOf = (sequence: number, acknowledged = 0): number =>
  ((sequence & 0xffff0000) | (acknowledged >>> 16)) >>> 0;

/** As syn_at(). */
export const synOf = (sequence: number): number => Math.imul(sequence, 0x9e3779b1) >>> 24 || 1;

const BITS = { F: 1, S: 2, R: 4, A: 16 } as const;
const bitsOf = (flags: string): number =>
  Array.from(flags, (flag) => BITS[flag as keyof typeof BITS]).reduce((a, b) => a | b, 0);

/** Offsets in struct states_case. */
const AT = { read: 48, timeouts: 56, now: 80, sequence: 84, acknowledged: 88, packet: 92, out: 96 };

export class ConnDrive {
  readonly #object = openObject(readFileSync(statesObject), { name: 'states' });
  readonly #run: () => void;
  readonly #at: DataView;

  constructor() {
    this.#object.load();
    const program = this.#object.program('fl_states');
    const dataIn = new Uint8Array(64);
    this.#run = () => program.testRun({ dataIn });
    this.#at = new DataView(this.#object.map('fl_case').mmap());
    Object.values(TIMEOUTS).forEach((seconds, index) => {
      this.#at.setUint32(AT.timeouts + 4 * index, seconds, true);
    });
  }

  close(): void {
    this.#object.close();
  }

  /** @param read what the program has read of the record before, if it has changed meanwhile */
  follow(conn: Conn, packet: Packet, read: Conn = conn): Followed {
    const at = this.#at;
    this.#putLife(0, conn);
    this.#putLife(AT.read, read);
    at.setUint32(16, conn.seen ?? 0, true);
    at.setUint32(20, conn.born ?? 0, true);
    at.setUint32(28, conn.progressClient ?? 0, true);
    at.setUint32(32, conn.progressBackend ?? 0, true);
    at.setUint32(AT.now, packet.now ?? conn.seen ?? 0, true);
    at.setUint32(AT.sequence, packet.tag ?? packet.sequence ?? 0, true);
    at.setUint32(AT.acknowledged, packet.acknowledged ?? 0, true);
    at.setUint8(AT.packet, Number(packet.from === 'backend'));
    at.setUint8(AT.packet + 1, bitsOf(packet.flags ?? ''));
    at.setUint8(AT.packet + 2, CHUNK[packet.chunk ?? 'DATA']);
    at.setUint8(AT.packet + 3, BACKEND[packet.backend ?? 'ACTIVE']);
    this.#run();
    return this.#read(conn.protocol);
  }

  #putLife(offset: number, conn: Conn): void {
    const at = this.#at;
    const flags = (conn.flags ?? []).reduce((bits, flag) => bits | FLAG[flag], 0);
    const before = (STATES as readonly string[]).indexOf(conn.before ?? 'NEW');
    at.setUint8(offset, (STATES as readonly string[]).indexOf(conn.state));
    at.setUint8(offset + 1, flags | (before << 5));
    at.setUint16(offset + 2, conn.generation ?? 1, true);
    at.setUint8(offset + 4, conn.syn ?? 0);
    at.setUint8(offset + 5, PROTOCOL_NUMBER[conn.protocol]);
    at.setUint16(offset + 6, conn.proof ?? 0x1234, true);
  }

  #read(protocol: Protocol): Followed {
    const at = this.#at;
    const bits = at.getUint32(AT.out, true);
    return {
      conn: {
        ...{ protocol, state: STATES[at.getUint8(0)] ?? '?' },
        ...{ before: STATES[at.getUint8(1) >> 5] ?? '?', generation: at.getUint16(2, true) },
        ...{ syn: at.getUint8(4), proof: at.getUint16(6, true) },
        ...{ seen: at.getUint32(16, true), born: at.getUint32(20, true) },
        progressClient: at.getUint32(28, true),
        progressBackend: at.getUint32(32, true),
      },
      effects: EFFECTS.filter((_, bit) => (bits >> bit) & 1),
      event: EVENTS[at.getUint32(AT.out + 4, true)] ?? '?',
      liveness: LIVENESS[at.getUint32(AT.out + 8, true)] ?? '?',
      isConfirmed: at.getUint32(AT.out + 12, true) === 1,
    };
  }
}
