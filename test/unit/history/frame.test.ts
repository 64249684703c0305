// SPDX-License-Identifier: Apache-2.0
// Records as bytes: whatever byte a crash or a disk has taken, the records before it are read, and nothing that is no record.
import { crc32, deflateSync } from 'node:zlib';
import { expect, test, vi } from 'vitest';
import { frameOf, scan } from '../../../src/history/frame.ts';
import type { HistoryRecord } from '../../../src/history/records.ts';

const sync = (n: number, reason = 'x'): HistoryRecord => ({
  ...{ n, at: 1_000 * n, up: 10 * n, t: 'sync', ms: 1, services: [] },
  failed: [{ reason }],
});

const RECORDS = [sync(1), sync(2, 'y'.repeat(50)), sync(3)];
const FRAMES = RECORDS.map(frameOf);
const BYTES = Buffer.concat(FRAMES);
const read = (bytes: Buffer): readonly HistoryRecord[] =>
  [...scan(bytes)].map(({ record }) => record);

test('records are read as they were written', () => {
  expect(read(BYTES)).toEqual(RECORDS);
  expect([...scan(BYTES)].at(-1)?.end).toBe(BYTES.length);
});

test('a long record is compressed', () => {
  const long = sync(4, 'abc '.repeat(10_000));
  expect(frameOf(long).length).toBeLessThan(2_000);
  expect(read(frameOf(long))).toEqual([long]);
});

test('cut off at any byte, the whole records are left', () => {
  const ends = FRAMES.map((_, at) => Buffer.concat(FRAMES.slice(0, at + 1)).length);
  for (let length = 0; length <= BYTES.length; length += 1) {
    const whole = ends.filter((end) => end <= length).length;
    expect(read(BYTES.subarray(0, length)), `${length} bytes`).toEqual(RECORDS.slice(0, whole));
  }
});

test('with any byte damaged, no record is read that was not written', () => {
  for (let at = 0; at < BYTES.length; at += 1) {
    const damaged = Buffer.from(BYTES);
    damaged[at] = (damaged[at] ?? 0) ^ 0x55;
    const found = read(damaged);
    expect(found, `byte ${at}`).toEqual(RECORDS.slice(0, found.length));
    expect(found.length).toBeLessThan(RECORDS.length);
  }
});

test('zeros after the last record are none', () => {
  expect(read(Buffer.concat([BYTES, Buffer.alloc(4_096)]))).toEqual(RECORDS);
});

test.each([
  { t: 'key', n: 4, at: 1, isLast: true },
  { t: 'sync', n: 4, at: 1, services: [null] },
  { t: 'sync', at: 1, services: [] },
])('%j is whole, but no record: as if it were not', (other) => {
  expect(read(Buffer.concat([BYTES, frameOf(other as never)]))).toEqual(RECORDS);
});

test('what unpacks to more than any record is none', () => {
  const payload = deflateSync(Buffer.alloc(257 * 2 ** 20, ' '), { level: 1 });
  const head = Buffer.alloc(8);
  head.writeUInt32LE(payload.length, 0);
  head.writeUInt32LE(crc32(payload), 4);
  const parse = vi.spyOn(JSON, 'parse');
  expect(read(Buffer.concat([head, payload]))).toEqual([]);
  expect(parse).not.toHaveBeenCalled();
  parse.mockRestore();
});
