// SPDX-License-Identifier: Apache-2.0
// A table of connections (bpf/packet/conn) and the programs of bpf/test/conn_drive.bpf.c, which do one operation on it each time.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { indexMaskOf, replyBuckets } from '../../../../../src/engines/bpf/conn/sizes.ts';
import type { Family } from '../../../../../src/model/types.ts';
import { type BpfObject, openObject } from '../../../../../src/sys/native.ts';
import {
  AT,
  type Connection,
  OPERATION_SIZE,
  operationOn,
  RECORD_AT,
  recordOf,
  type Side,
  UDP_NEW,
  WHAT,
} from './operation.ts';

export const SLOTS = 7;
export const FAMILIES = ['IPv4', 'IPv6'] as const;
export const HALF = 0x20000000;
export const BUSY = 0x80000000;

const BEGUN = ['made', 'doubled', 'no room'] as const;
const CLAIMED = ['made', 'taken', 'no reply'] as const;
const NOT_FOUND = 99;
/** Of conn/here.h. */
const HERE: Readonly<Record<number, 'nowhere' | 'unsure'>> = {
  4294967294: 'nowhere',
  4294967295: 'unsure',
};
/** Of no record. */
const UNTOUCHED = 0x7777;

export interface Found {
  readonly index: number;
  readonly isHalf: boolean;
  readonly id: number;
  readonly replyPort: number;
}

export type Begun = (typeof BEGUN)[number] | (typeof CLAIMED)[number] | 'not found';

export const suffixOf = (family: Family): 4 | 6 => (family === 'IPv4' ? 4 : 6);

const built = (name: string): string =>
  fileURLToPath(
    new URL(
      `../../../../../build/${name.startsWith('carry') ? 'bpf' : 'bpf-test'}/${name}.bpf.o`,
      import.meta.url,
    ),
  );
/** In struct packet_settings. */
const TCP_ESTABLISHED_AT = 12;
const u32 = (value: number): Uint8Array => new Uint8Array(Uint32Array.of(value).buffer);

/** An object of bpf/test with tables of so many buckets, not loaded yet. */
export function openTable(
  name: string,
  buckets: number,
  rodata: Readonly<Record<string, number>> = {},
): BpfObject {
  const object = openObject(readFileSync(built(name)), { name: 'conn' });
  const mask = indexMaskOf(buckets);
  const all = {
    ...{ conn_buckets4: buckets, conn_buckets6: buckets },
    ...{ conn_index_mask4: mask, conn_index_mask6: mask, ...rodata },
  };
  for (const [variable, value] of Object.entries(all)) object.setRodata(variable, u32(value));
  for (const suffix of [4, 6]) {
    object.setMaxEntries(`fl_conn${suffix}`, buckets * SLOTS);
    object.setMaxEntries(`fl_client${suffix}`, buckets);
    object.setMaxEntries(`fl_reply${suffix}`, replyBuckets(buckets));
  }
  return object;
}

export class ConnTable {
  readonly family: Family;
  readonly object: BpfObject;
  /** Tick. */
  now = 1_000;
  /** Ticks: for so long a backend may answer a datagram. */
  udpNew = UDP_NEW;
  readonly #program;

  /**
   * @param from an object whose tables it has; none: its own
   * @param rodata in place of what its size needs
   */
  constructor(
    family: Family,
    buckets: number,
    from?: BpfObject,
    rodata: Readonly<Record<string, number>> = {},
  ) {
    this.family = family;
    this.object = openTable('conn_drive', buckets, rodata);
    if (from !== undefined) {
      for (const name of this.object.maps.filter((map) => map.startsWith('fl_'))) {
        this.object.reuseMap(name, from.map(name));
      }
    }
    this.object.load();
    this.#program = this.object.program(`conn_operate${suffixOf(family)}`);
  }

  close(): void {
    this.object.close();
  }

  /** Without them nothing expires. */
  setTimeouts({ tcpEstablished }: { readonly tcpEstablished: number }): void {
    const settings = this.object.map('fl_packet');
    const bytes = settings.get(u32(0))!;
    new DataView(bytes.buffer, bytes.byteOffset).setUint32(
      TCP_ESTABLISHED_AT,
      tcpEstablished,
      true,
    );
    settings.put(u32(0), bytes);
  }

  /** Half-open unless told otherwise; its reply tuple is claimed if it has a port. */
  begin(connection: Connection, { half = true } = {}): Begun {
    const operation = this.#on(connection);
    operation.setUint32(160, half ? HALF : 0, true);
    return claimedOf(this.#run(operation, WHAT.begin));
  }

  find(connection: Connection): Found | undefined {
    return this.findRecord(recordOf(connection, this.family, this.now), 'client');
  }

  /** By a packet of its backend. */
  findReply(connection: Connection): Found | undefined {
    return this.findRecord(recordOf(connection, this.family, this.now), 'reply');
  }

  /** By a tuple of any record. */
  findRecord(record: Uint8Array, side: Side): Found | undefined {
    const { operation, isFound } = this.#lookUp(record, side);
    if (!isFound) return undefined;
    return {
      index: operation.getUint32(152, true),
      isHalf: (operation.getUint32(156, true) & HALF) !== 0,
      id: operation.getUint32(RECORD_AT + AT.id, true),
      replyPort: operation.getUint16(RECORD_AT + AT.replyPort, true),
    };
  }

  /** What a look-up without calls says: the number of a record, which need not have the tuple. */
  here(connection: Connection, side: Side): number | 'nowhere' | 'unsure' {
    const record = recordOf(connection, this.family, this.now);
    const here = this.#lookUp(record, side).operation.getUint32(160, true);
    return HERE[here] ?? here;
  }

  /** By the answers of a backend: what is not found leaves the number as it was, or it would be taken for the packet's own. */
  #lookUp(record: Uint8Array, side: Side) {
    const operation = operationOn(record, side, this.family, this.now);
    operation.setUint32(152, UNTOUCHED, true);
    const outcome = this.#run(operation, side === 'client' ? WHAT.find : WHAT.findReply);
    const isFound = outcome !== NOT_FOUND;
    if (side === 'reply' && !isFound && operation.getUint32(152, true) !== UNTOUCHED) {
      throw new Error('a look-up that finds nothing has changed the number');
    }
    return { operation, isFound };
  }

  /** What a look-up by a packet of the backend leaves of the index that the caller had. */
  indexAfterReply(connection: Connection, before: number): number {
    const record = recordOf(connection, this.family, this.now);
    const operation = operationOn(record, 'reply', this.family, this.now);
    operation.setUint32(152, before, true);
    this.#run(operation, WHAT.findReply);
    return operation.getUint32(152, true);
  }

  confirm(connection: Connection): boolean {
    return this.#run(this.#on(connection), WHAT.confirm) === 0;
  }

  release(connection: Connection): boolean {
    return this.releaseRecord(recordOf(connection, this.family, this.now));
  }

  releaseRecord(record: Uint8Array): boolean {
    const operation = operationOn(record, 'client', this.family, this.now);
    return this.#run(operation, WHAT.release) === 0;
  }

  /** What a packet has found of a connection, to end it later. */
  copy(connection: Connection): DataView<ArrayBuffer> {
    const operation = this.#on(connection);
    this.#run(operation, WHAT.find);
    operation.setUint32(144, WHAT.end, true);
    return operation;
  }

  /** False: it is not ended. */
  endCopy(copy: DataView<ArrayBuffer>): boolean {
    return this.#run(copy, WHAT.end) === 0;
  }

  endUnchanged(copy: DataView<ArrayBuffer>): boolean {
    return this.#run(copy, WHAT.endUnchanged) === 0;
  }

  /** The reply tuple of a connection that has none. */
  claim(connection: Connection): Begun {
    return claimedOf(this.#run(this.#on(connection), WHAT.claim));
  }

  /** The memory of one of its indexes. */
  index(side: Side): ArrayBuffer {
    return this.object.map(`fl_${side}${suffixOf(this.family)}`).mmap();
  }

  #on(connection: Connection): DataView<ArrayBuffer> {
    return operationOn(
      recordOf(connection, this.family, this.now),
      'client',
      this.family,
      this.now,
    );
  }

  /** The outcome; the operation is as the program has left it. */
  #run(operation: DataView<ArrayBuffer>, what: number): number {
    operation.setUint32(144, what, true);
    operation.setUint32(52, this.udpNew, true);
    const bytes = new Uint8Array(operation.buffer);
    const { dataOut } = this.#program.testRun({ dataIn: bytes, dataOutSize: OPERATION_SIZE });
    bytes.set(dataOut);
    return operation.getUint32(148, true);
  }
}

function claimedOf(outcome: number): Begun {
  if (outcome === NOT_FOUND) return 'not found';
  return (outcome >= 10 ? CLAIMED[outcome / 10] : BEGUN[outcome]) ?? 'not found';
}
