// SPDX-License-Identifier: Apache-2.0
// Records of the table of connections (bpf/packet/conn) with their addresses as text.
import {
  CONN_SIZE,
  CONN_SLOTS,
  ConnRecord,
  type ConnSide,
  type ConnState,
} from '../../../src/engines/bpf/layout/conn-layout.ts';
import { protocolOf } from '../../../src/engines/bpf/layout/layout.ts';
import { addressText } from '../../../src/lib/address-bytes.ts';
import type { Family, Protocol } from '../../../src/model/types.ts';
import type { BpfObject } from '../../../src/sys/native.ts';

export interface SideText {
  readonly address: string;
  readonly port: number;
}

export interface ConnText {
  readonly index: number;
  readonly protocol: Protocol;
  readonly client: SideText;
  readonly frontend: SideText;
  readonly backend: SideText;
  /** Where the backend answers to; undefined: SNAT has not chosen yet, or answers do not come by. */
  readonly reply: SideText | undefined;
  readonly middlePort: number;
  readonly state: ConnState;
  readonly isHalfOpen: boolean;
  readonly isMasqueraded: boolean;
  readonly isOneSided: boolean;
  readonly isOwn: boolean;
  readonly backendId: number;
  readonly frontendId: number;
  readonly generation: number;
  readonly packets: number;
  readonly bytes: number;
  readonly replyPackets: number;
  readonly replyBytes: number;
}

const digitOf = (family: Family): 4 | 6 => (family === 'IPv4' ? 4 : 6);

interface Memory {
  readonly words: Uint32Array;
  readonly records: Uint32Array;
  readonly traffic: Uint32Array;
}

const known = new WeakMap<BpfObject, Map<Family, Memory>>();

/** Shared with the programs. */
function memoryOf(object: BpfObject, family: Family): Memory {
  const ofObject = known.get(object) ?? new Map<Family, Memory>();
  known.set(object, ofObject);
  const digit = digitOf(family);
  const memory = ofObject.get(family) ?? {
    words: new Uint32Array(object.map(`fl_client${digit}`).mmap()),
    records: new Uint32Array(object.map(`fl_conn${digit}`).mmap()),
    traffic: new Uint32Array(object.map(`fl_conn_traf${digit}`).mmap()),
  };
  ofObject.set(family, memory);
  return memory;
}

const BUCKET_WORDS = CONN_SIZE.client_bucket / 4;

function* recordsOf({ words, records }: Memory, family: Family): Generator<ConnRecord> {
  for (let at = 0; at < words.length; at += 1) {
    const slot = at % BUCKET_WORDS;
    const word = words[at] ?? 0;
    if (slot >= CONN_SLOTS || word === 0) continue;
    const record = new ConnRecord(family);
    record.index = Math.floor(at / BUCKET_WORDS) * CONN_SLOTS + slot;
    record.word = word;
    const from = record.index * record.words.length;
    record.words.set(records.subarray(from, from + record.words.length));
    yield record;
  }
}

const sideText = ({ address, port }: ConnSide): SideText => ({
  address: addressText(address),
  port,
});

/** Of few packets: the lower halves of struct conn_traffic. */
function connText(record: ConnRecord, traffic: Uint32Array): ConnText {
  const count = (word: number): number => traffic[6 * record.index + word] ?? 0;
  const reply = sideText(record.side('reply'));
  return {
    index: record.index,
    protocol: protocolOf(record.protocol),
    client: sideText(record.side('client')),
    frontend: sideText(record.side('frontend')),
    backend: sideText(record.side('backend')),
    reply: reply.port === 0 ? undefined : reply,
    middlePort: record.middlePort,
    state: record.state,
    isHalfOpen: record.isHalfOpen,
    isMasqueraded: record.isMasqueraded,
    isOneSided: record.isOneSided,
    isOwn: record.isOwn,
    backendId: record.backendId,
    frontendId: record.frontendId,
    generation: record.generation,
    ...{ packets: count(2), bytes: count(0), replyPackets: count(3), replyBytes: count(4) },
  };
}

/** In the order of the table. */
export function connsOf(object: BpfObject, family: Family): readonly ConnText[] {
  const memory = memoryOf(object, family);
  return [...recordsOf(memory, family)].map((record) => connText(record, memory.traffic));
}

/** Changes the words of every record; the proof covers what does not change while a connection lives. */
export function editConns(
  object: BpfObject,
  family: Family,
  change: (words: Uint32Array, record: ConnRecord) => void,
): void {
  const memory = memoryOf(object, family);
  for (const record of recordsOf(memory, family)) {
    const from = record.index * record.words.length;
    change(memory.records.subarray(from, from + record.words.length), record);
  }
}

/** Empties the table of one family, without a trace in its counters. */
export function endConns(object: BpfObject, family: Family): void {
  memoryOf(object, family).words.fill(0);
  new BigUint64Array(object.map(`fl_reply${digitOf(family)}`).mmap()).fill(0n);
}
