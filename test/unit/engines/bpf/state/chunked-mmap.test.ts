// SPDX-License-Identifier: Apache-2.0
// Arrays mapped chunk by chunk: the same elements as one memory, only what is needed, each chunk once.
import { expect, test } from 'vitest';
import {
  CHUNK_BYTES,
  createChunkedMmap,
} from '../../../../../src/engines/bpf/state/chunked-mmap.ts';
import { clear, element } from '../../../../../src/engines/bpf/state/tables.ts';

const ELEMENT = 16;
const PER_CHUNK = CHUNK_BYTES / ELEMENT;
/** Two chunks and a half. */
const LENGTH = 2.5 * PER_CHUNK;

function start() {
  const chunks = Array.from(
    { length: 3 },
    (_, chunk) => new ArrayBuffer(chunk < 2 ? CHUNK_BYTES : CHUNK_BYTES / 2),
  );
  const mapped: number[] = [];
  const table = createChunkedMmap(
    { name: 'fl_test', length: LENGTH, elementSize: ELEMENT },
    {
      map(offset, length) {
        const chunk = offset / CHUNK_BYTES;
        expect(mapped).not.toContain(chunk);
        expect(length).toBe(chunks[chunk]?.byteLength);
        mapped.push(chunk);
        return chunks[chunk] ?? new ArrayBuffer();
      },
      unmap: (memory) => void mapped.splice(mapped.indexOf(chunks.indexOf(memory)), 1),
    },
  );
  return { table, chunks, mapped };
}

test('an element is where it belongs, and only its chunk is mapped', () => {
  const { table, chunks, mapped } = start();
  const index = PER_CHUNK + 3;
  table.view(index).setUint32(table.offset(index), 0x01020304);
  expect([...new Uint8Array(chunks[1]!, 3 * ELEMENT, 5)]).toEqual([1, 2, 3, 4, 0]);
  expect([...element(table, index)].slice(0, 5)).toEqual([1, 2, 3, 4, 0]);
  expect(mapped).toEqual([1]);
  expect(table.offset(LENGTH - 1)).toBe((PER_CHUNK / 2 - 1) * ELEMENT);
  table.view(LENGTH - 1).setUint8(table.offset(LENGTH - 1), 9);
  expect(mapped).toEqual([1, 2]);
});

test('clear touches one element', () => {
  const { table, chunks } = start();
  new Uint8Array(chunks[0]!).fill(7, 0, 3 * ELEMENT);
  clear(table, 1);
  const bytes = new Uint8Array(chunks[0]!);
  expect([bytes[ELEMENT - 1], bytes[ELEMENT], bytes[2 * ELEMENT - 1], bytes[2 * ELEMENT]]).toEqual([
    7, 0, 0, 7,
  ]);
});

test('a scan sees every element once, and keeps what is kept and what was there', () => {
  const { table, chunks, mapped } = start();
  new Uint32Array(chunks[1]!)[4] = 1;
  table.view(0);
  const seen: number[] = [];
  table.scan((view, offset, index) => {
    seen.push(index);
    return view.getUint32(offset, true) === 1;
  });
  expect(seen).toEqual(Array.from({ length: LENGTH }, (_, index) => index));
  expect(mapped).toEqual([0, 1]);
});
