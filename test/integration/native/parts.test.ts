// SPDX-License-Identifier: Apache-2.0
// Mapping parts of an array: a part is exactly that range of the array and is unmapped when released.
import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { BpfMap, BpfObject } from '../../../src/sys/native.ts';
import { caught } from './support/errors.ts';
import { loadFixture, missing, readU32, u32 } from './support/fixture.ts';
import { collectUntil } from './support/garbage.ts';

const PAGE = 4096;
const ELEMENT = 16;
/** Ten pages and a half. */
const ELEMENTS = (10.5 * PAGE) / ELEMENT;

type Transferable = ArrayBuffer & { transfer(): ArrayBuffer };

/** KiB of BPF map memory that this process has in its address space. */
function mappedKib(): number {
  const regions = readFileSync('/proc/self/smaps', 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  return regions
    .filter((region) => region.includes('anon_inode:bpf-map'))
    .reduce((sum, region) => sum + Number(/^Size: +(\d+) kB$/m.exec(region)?.[1]), 0);
}

describe.skipIf(missing !== undefined || process.arch !== 'x64')('parts of shared memory', () => {
  let object: BpfObject;
  let shared: BpfMap;
  beforeEach(() => {
    object = loadFixture((unloaded) => unloaded.setMaxEntries('shared', ELEMENTS));
    shared = object.map('shared');
  });
  afterEach(() => {
    shared.close();
    object.close();
  });

  test('have the requested bounds and share memory with the array', () => {
    const before = mappedKib();
    const part = shared.mmap(2 * PAGE, 3 * PAGE);
    expect(part.byteLength).toBe(3 * PAGE);
    expect(mappedKib() - before).toBe(12);
    const id = (2 * PAGE) / ELEMENT + 5;
    shared.put(u32(id), u32(7, 8, 9));
    expect(readU32(new Uint8Array(part, 5 * ELEMENT))).toBe(7);
    new Uint32Array(part)[5 * 4 + 1] = 80;
    expect(shared.get(u32(id))).toEqual(u32(7, 80, 9));
    expect(shared.mmap(2 * PAGE, 3 * PAGE)).toBe(part);
    expect(shared.mmap(2 * PAGE, PAGE)).not.toBe(part);
  });

  test('the last one may end within a page; without a length it is the rest', () => {
    expect(shared.mmap(10 * PAGE).byteLength).toBe(PAGE / 2);
    expect(shared.mmap().byteLength).toBe(ELEMENTS * ELEMENT);
  });

  test('released: detached and unmapped, while the others stay', () => {
    const before = mappedKib();
    const first = shared.mmap(0, PAGE);
    const second = shared.mmap(PAGE, PAGE);
    shared.munmap(first);
    expect(first.byteLength).toBe(0);
    expect(mappedKib() - before).toBe(4);
    new Uint32Array(second)[0] = 3;
    expect(shared.get(u32(PAGE / ELEMENT))).toEqual(u32(3, 0, 0));
    expect(caught(() => shared.munmap(first)).code).toBe('ARGUMENT');
    expect(caught(() => shared.munmap(new ArrayBuffer(8))).code).toBe('ARGUMENT');
    expect(shared.mmap(0, PAGE).byteLength).toBe(PAGE);
    shared.close();
    expect([second.byteLength, mappedKib() - before]).toEqual([0, 0]);
  });

  // Since Node 22; the tests run on each version (scripts/test nodes).
  const hasTransfer = 'transfer' in ArrayBuffer.prototype;
  test.skipIf(!hasTransfer)(
    'transferred: the memory belongs to the new buffer, even after the map is closed',
    async () => {
      const before = mappedKib();
      await (async () => {
        const part = shared.mmap(0, PAGE) as Transferable;
        const moved = part.transfer();
        expect(part.byteLength).toBe(0);
        expect(caught(() => shared.munmap(part))).toMatchObject({
          code: 'ARGUMENT',
          message: expect.stringContaining("not returned by this map's mmap()"),
        });
        expect(shared.mmap(0, PAGE).byteLength).toBe(PAGE);
        const second = (shared.mmap(PAGE, PAGE) as Transferable).transfer();
        shared.put(u32(0), u32(5, 6, 7));
        shared.close();
        expect(readU32(new Uint8Array(moved))).toBe(5);
        new Uint32Array(second)[0] = 9;
        expect(mappedKib() - before).toBe(8);
      })();
      await collectUntil(() => mappedKib() === before);
    },
  );

  test('invalid parts are rejected', () => {
    const wrong: readonly (readonly [number, number | undefined])[] = [
      [1, PAGE],
      [11 * PAGE, PAGE],
      [0, 0],
      [10 * PAGE, PAGE],
      [2 ** 31, undefined],
    ];
    for (const [offset, length] of wrong) {
      expect(caught(() => shared.mmap(offset, length)).code, `${offset} ${length}`).toBe(
        'ARGUMENT',
      );
    }
  });
});
