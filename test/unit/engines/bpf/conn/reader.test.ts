// SPDX-License-Identifier: Apache-2.0
// Reading connections whose records change meanwhile: the proof is asked between the copy and the second look at the word,
// so a test changes memory there, as a program on another CPU would.
import { expect, test } from 'vitest';
import type { Proof } from '../../../../../src/engines/bpf/conn/proof.ts';
import { readConn, readConns, STEP_BUCKETS } from '../../../../../src/engines/bpf/conn/reader.ts';
import { CONN_BUSY, CONN_HALF } from '../../../../../src/engines/bpf/layout/conn-layout.ts';
import type { ChunkMemory } from '../../../../../src/engines/bpf/state/chunked-mmap.ts';

const RECORD = { IPv4: 16, IPv6: 32 } as const;

/** Memory in which every record has its index as its backend id, and a proof that follows from it. */
function start(family: 'IPv4' | 'IPv6', buckets: number) {
  const size = RECORD[family];
  const words = new Uint32Array(buckets * 8);
  const records = new Uint32Array(buckets * 7 * size);
  const mapped = new Set<ArrayBuffer>();
  const part = (of: Uint32Array): ChunkMemory & { readonly lengths: number[] } => {
    const lengths: number[] = [];
    return {
      lengths,
      map(offset, length) {
        expect(offset % 65_536).toBe(0);
        expect(offset + length).toBeLessThanOrEqual(of.byteLength);
        lengths.push(length);
        // A view of the same memory, as a mapping is.
        const buffer = of.buffer.slice(offset, offset + length) as ArrayBuffer;
        mapped.add(buffer);
        live = { ...live, [of === words ? 'words' : 'records']: new Uint32Array(buffer) };
        return buffer;
      },
      unmap: (buffer) => expect(mapped.delete(buffer)).toBe(true),
    };
  };
  let live: { words?: Uint32Array; records?: Uint32Array } = {};
  const put = (index: number, word = index + 1): void => {
    words[Math.floor(index / 7) * 8 + (index % 7)] = word;
    records[index * size + 2] = index;
    records[index * size + 1] = proofFor(index) << 16;
  };
  /** @param other added to each proof of the memory that is read */
  const read = (between: (at: NonNullable<typeof live>) => void = () => undefined, other = 0) => {
    for (let at = 1; other !== 0 && at < records.length; at += size) {
      records[at] = ((records[at] ?? 0) + (other << 16)) >>> 0;
    }
    const proof: Proof = (copy) => {
      between(live);
      return proofFor(copy[2] ?? 0);
    };
    const found: number[] = [];
    const halfOpen: number[] = [];
    const client = part(words);
    const conn = part(records);
    const steps = readConns({ family, buckets, client, conn, proof }, (record) => {
      expect(record.backendId).toBe(record.index);
      found.push(record.index);
      if (record.isHalfOpen) halfOpen.push(record.index);
    });
    const perStep: number[] = [];
    for (;;) {
      const before = found.length;
      const { done, value } = steps.next();
      if (done === true) {
        expect(mapped.size).toBe(0);
        return { found, halfOpen, perStep, counts: value, client, conn };
      }
      perStep.push(found.length - before);
    }
  };
  const readOne = (index: number) => {
    const proof: Proof = (copy) => proofFor(copy[2] ?? 0);
    const found = readConn(
      { family, buckets, client: part(words), conn: part(records), proof },
      index,
    );
    expect(mapped.size).toBe(0);
    return found;
  };
  return { put, read, readOne, mapped, words };
}

const proofFor = (index: number): number => (index * 31 + 7) & 0xffff;

test.each(['IPv4', 'IPv6'] as const)(
  '%s: each record once, a part of the table in a step',
  (family) => {
    const buckets = 2 * STEP_BUCKETS + 5;
    const { put, read } = start(family, buckets);
    const all = Array.from({ length: buckets * 7 }, (_, index) => index);
    for (const index of all) put(index);
    const { found, perStep, counts, client, conn } = read();
    expect(found).toEqual(all);
    expect(perStep).toEqual([7 * STEP_BUCKETS, 7 * STEP_BUCKETS, 35]);
    expect(counts).toEqual({ read: buckets * 7, missed: 0 });
    expect(client.lengths).toEqual([65_536, 65_536, 160]);
    expect(conn.lengths[2]).toBe(35 * 4 * RECORD[family]);
  },
);

test('free slots are none, half-open ones are told, one that is BUSY is missed', () => {
  const { put, read } = start('IPv4', 3);
  put(0);
  put(8, CONN_HALF | 5);
  put(20, (CONN_BUSY | 5) >>> 0);
  const { found, halfOpen, counts } = read();
  expect({ found, halfOpen, counts }).toEqual({
    ...{ found: [0, 8], halfOpen: [8], counts: { read: 2, missed: 1 } },
  });
});

test('a record that changes while it is copied is copied again', () => {
  const { put, read } = start('IPv4', 1);
  put(3);
  let turn = 0;
  const { counts } = read(({ words = new Uint32Array() }) => {
    turn += 1;
    if (turn === 1) words[3] = 99;
  });
  expect(turn).toBe(2);
  expect(counts).toEqual({ read: 1, missed: 0 });
});

test.each([
  ['each time', Number.POSITIVE_INFINITY, { read: 0, missed: 1 }],
  ['once', 1, { read: 1, missed: 0 }],
])('a copy whose proof does not fit, %s, although the word stays', (_, times, wanted) => {
  const { put, read } = start('IPv4', 1);
  put(3);
  let turn = 0;
  const { counts } = read(({ records = new Uint32Array() }) => {
    turn += 1;
    // What the next attempt copies.
    if (turn === times) records[3 * 16 + 1] = proofFor(3) << 16;
  }, 1);
  expect(counts).toEqual(wanted);
});

test('memory is unmapped if the visitor throws, or ends early', () => {
  const { put, read, mapped } = start('IPv4', 1);
  put(0);
  expect(() =>
    read(() => {
      throw new Error('stop');
    }),
  ).toThrow('stop');
  expect(mapped.size).toBe(0);
});

test.each(['IPv4', 'IPv6'] as const)('%s: a single record, wherever it is', (family) => {
  const buckets = 2 * STEP_BUCKETS + 5;
  const { put, readOne } = start(family, buckets);
  const all = [0, 6, 7, 7 * STEP_BUCKETS - 1, 7 * STEP_BUCKETS, 7 * buckets - 1];
  for (const index of all) {
    expect(readOne(index), `${index} is free`).toBeUndefined();
    put(index);
    expect(readOne(index)).toMatchObject({ index, backendId: index, word: index + 1 });
  }
  put(20, CONN_BUSY);
  expect(readOne(20)).toBeUndefined();
});
