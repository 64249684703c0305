// SPDX-License-Identifier: Apache-2.0
// Maps: elements, batches with honest counts, shared memory, pins, and every wrong size.
import { unlinkSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  type BpfMap,
  type BpfObject,
  openPinnedMap,
  possibleCpus,
} from '../../../src/sys/native.ts';
import { caught } from './support/errors.ts';
import { frame, loadFixture, missing, readU32, u32, u64 } from './support/fixture.ts';
import { collectGarbage } from './support/garbage.ts';
import { makeBpffs, type TestResource } from './support/resources.ts';

const range = (count: number, from = 0): number[] =>
  Array.from({ length: count }, (_, i) => from + i);
const keysOf = (numbers: number[]): Uint8Array => u32(...numbers);
const valuesOf = (numbers: number[]): Uint8Array => u64(...numbers.map((n) => BigInt(n) * 10n));

describe.skipIf(missing !== undefined)('maps', () => {
  let object: BpfObject;
  let bpffs: TestResource;
  const map = (name: string): BpfMap => object.map(name);

  beforeAll(() => {
    bpffs = makeBpffs();
  });
  beforeEach(() => {
    object?.close();
    object = loadFixture();
  });
  afterAll(() => {
    object?.close();
    bpffs?.release();
  });

  /** Bytes of one element's value for all CPUs, the same number on each. */
  function perCpu(number: number): Uint8Array {
    return u32(...range(possibleCpus()).flatMap(() => [number, 0]));
  }

  test('puts, gets and deletes one element', () => {
    const table = map('table');
    expect(table.get(u32(1))).toBeUndefined();
    table.put(u32(1), u64(2n));
    expect(table.get(u32(1))).toEqual(u64(2n));
    expect(table.delete(u32(1))).toBe(true);
    expect(table.delete(u32(1))).toBe(false);
  });

  test('a program goes into an array of programs alone', () => {
    const program = object.program('first_tc');
    expect(caught(() => map('plain').putProgram(u32(0), program)).code).toBe('EINVAL');
    expect(caught(() => map('table').putProgram(u32(1), program)).code).toBe('EINVAL');
    expect(caught(() => map('table').putProgram(u32(1), object as never)).code).toBe('ARGUMENT');
    expect(map('table').get(u32(1))).toBeUndefined();
  });

  test('flags of put say whether the key must be there', () => {
    const table = map('table');
    expect(caught(() => table.put(u32(1), u64(1n), 2)).code).toBe('ENOENT');
    table.put(u32(1), u64(1n), 1);
    expect(caught(() => table.put(u32(1), u64(1n), 1)).code).toBe('EEXIST');
    expect(caught(() => table.put(u32(1), u64(1n), 99))).toMatchObject({
      code: 'EINVAL',
      errno: 22,
      op: 'bpf_map_update_elem',
      message: expect.stringContaining('map table'),
    });
  });

  test('a key may be a view into a larger buffer', () => {
    const table = map('table');
    const bytes = Buffer.concat([u32(9), u32(1), u32(9)]);
    table.put(bytes.subarray(4, 8), u64(5n));
    expect(table.get(u32(1))).toEqual(u64(5n));
  });

  test('put on a full map throws E2BIG', () => {
    const table = map('table');
    for (const key of range(8)) table.put(u32(key), u64(0n));
    expect(caught(() => table.put(u32(99), u64(0n)))).toMatchObject({ code: 'E2BIG', errno: 7 });
  });

  test('per-CPU values hold one value per CPU, each rounded up to 8 bytes', () => {
    for (const name of ['cpu_table', 'cpu_array']) {
      const table = map(name);
      expect(table.info.valueSize).toBe(4);
      table.put(u32(1), perCpu(5));
      expect(table.get(u32(1))).toEqual(perCpu(5));
      expect(caught(() => table.put(u32(1), u32(5))).code).toBe('ARGUMENT');
    }
  });

  test('buffers of a wrong size or type are rejected before the system call', () => {
    const table = map('table');
    const odd = new Uint8Array(5);
    const wrong: (() => unknown)[] = [
      () => table.get(odd),
      () => table.get(new Uint8Array()),
      () => table.delete(odd),
      () => table.put(odd, u64(1n)),
      () => table.put(u32(1), odd),
      () => table.putBatch(odd, u64(1n)),
      () => table.putBatch(u32(1), odd),
      () => table.putBatch(u32(1, 2), u64(1n)),
      () => table.deleteBatch(odd),
      () => table.get([1, 2, 3, 4] as never),
      () => table.get(new Uint32Array(1) as never),
      () => table.get(undefined as never),
      () => table.put(u32(1), u64(1n), -1),
      () => table.put(u32(1), u64(1n), 1.5),
      () => table.put(u32(1), u64(1n), 'any' as never),
      () => table.pin(''),
      () => table.pin('a\0b'),
      () => table.pin(7 as never),
    ];
    for (const call of wrong)
      expect(caught(call), call.toString()).toMatchObject({
        code: 'ARGUMENT',
        errno: 0,
        op: expect.stringMatching(/^map\./),
      });
    expect(table.readAll().count).toBe(0);
  });

  test('a batch of all elements is applied completely', () => {
    const large = map('large');
    const numbers = range(20_000);
    expect(large.putBatch(keysOf(numbers), valuesOf(numbers))).toEqual({ count: 20_000 });
    const all = large.readAll();
    expect(all.count).toBe(20_000);
    const seen = new Map(
      range(all.count).map((i) => [readU32(all.keys, i), readU32(all.values, 2 * i)]),
    );
    expect(seen.size).toBe(20_000);
    for (const number of numbers) expect(seen.get(number)).toBe(number * 10);
    expect(large.deleteBatch(keysOf(numbers))).toEqual({ count: 20_000 });
    expect(large.readAll().count).toBe(0);
  });

  test('reading batch by batch gives every element once, and memory for one batch only', () => {
    const large = map('large');
    const numbers = range(20_000);
    large.putBatch(keysOf(numbers), valuesOf(numbers));
    const seen: number[] = [];
    let calls = 0;
    for (let after: Uint8Array | undefined; ; calls++) {
      const { keys, values, count, next } = large.readBatch(1024, after);
      expect([keys.length, values.length]).toEqual([4 * count, 8 * count]);
      expect(count).toBeLessThanOrEqual(1024);
      for (const at of range(count)) {
        seen.push(readU32(keys, at));
        expect(readU32(values, 2 * at)).toBe(readU32(keys, at) * 10);
      }
      if (next === undefined) break;
      after = next;
    }
    expect(calls).toBeGreaterThan(18);
    expect(seen.sort((a, b) => a - b)).toEqual(numbers);
  });

  test('readBatch: empty and small maps, arrays, buckets larger than a batch, wrong arguments', () => {
    expect(map('table').readBatch(10)).toEqual({
      keys: new Uint8Array(),
      values: new Uint8Array(),
      count: 0,
    });
    const table = map('table');
    table.putBatch(keysOf(range(8)), valuesOf(range(8)));
    const whole = table.readBatch(64);
    expect([whole.count, whole.next]).toEqual([8, undefined]);
    const first = map('shared').readBatch(2);
    const second = map('shared').readBatch(64, first.next);
    expect([first.keys, second.keys]).toEqual([u32(0, 1), u32(2, 3, 4)]);
    // One element per call: a bucket of several is still given whole.
    let count = 0;
    for (let after: Uint8Array | undefined; ; ) {
      const batch = table.readBatch(1, after);
      count += batch.count;
      if (batch.next === undefined) break;
      after = batch.next;
    }
    expect(count).toBe(8);
    const wrong = [
      () => table.readBatch(0),
      () => table.readBatch(65_537),
      () => table.readBatch(1, u32(1)),
      () => table.readBatch(1, 'x' as never),
      () => table.readBatch(undefined as never),
    ];
    for (const call of wrong) {
      expect(caught(call), call.toString()).toMatchObject({
        code: 'ARGUMENT',
        op: 'map.readBatch',
      });
    }
    expect(caught(() => map('queue').readBatch(1)).code).toBe('ENOTSUP');
  });

  test('a map that fills half-way reports how many elements it took', () => {
    const table = map('table');
    const result = table.putBatch(keysOf(range(12)), valuesOf(range(12)));
    expect(result.count).toBe(8);
    expect(result.error).toMatchObject({ code: 'E2BIG', errno: 7, op: 'bpf_map_update_batch' });
    expect(result.error?.message).toContain('after 8 elements');
    const there = range(12).filter((key) => table.get(u32(key)) !== undefined);
    expect(there).toEqual(range(8));
    const first = table.putBatch(keysOf([50]), valuesOf([50]));
    expect(first).toMatchObject({ count: 0, error: { code: 'E2BIG' } });
  });

  test('empty batches are fine', () => {
    const table = map('table');
    expect(table.putBatch(new Uint8Array(), new Uint8Array())).toEqual({ count: 0 });
    expect(table.deleteBatch(new Uint8Array())).toEqual({ count: 0 });
  });

  test('deleting in batches counts absent keys as done', () => {
    const table = map('table');
    table.putBatch(keysOf([1, 2, 3]), valuesOf([1, 2, 3]));
    expect(table.deleteBatch(keysOf([9, 1, 8, 3, 7]))).toEqual({ count: 5 });
    expect(table.readAll()).toMatchObject({ count: 1, keys: u32(2) });
    expect(table.deleteBatch(keysOf([100, 101]))).toEqual({ count: 2 });
  });

  test('batches work for every type of map that has elements', () => {
    const rows = [
      { name: 'lru', keys: keysOf([1, 2]), values: valuesOf([1, 2]), canDelete: true, size: 2 },
      {
        name: 'cpu_table',
        keys: keysOf([1, 2]),
        values: Buffer.concat([perCpu(1), perCpu(2)]),
        canDelete: true,
        size: 2,
      },
      {
        name: 'cpu_array',
        keys: keysOf([1, 2]),
        values: Buffer.concat([perCpu(1), perCpu(2)]),
        canDelete: false,
        size: 4,
      },
      {
        name: 'shared',
        keys: keysOf([1, 2]),
        values: u32(1, 2, 3, 4, 5, 6),
        canDelete: false,
        size: 5,
      },
      {
        name: 'routes',
        keys: new Uint8Array([8, 0, 0, 0, 10, 0, 0, 0, 16, 0, 0, 0, 10, 1, 0, 0]),
        values: u32(1, 2),
        canDelete: true,
        size: 2,
      },
    ];
    for (const { name, keys, values, canDelete, size } of rows) {
      const target = map(name);
      expect(target.putBatch(keys, values), name).toEqual({ count: 2 });
      expect(target.readAll().count, name).toBe(size);
      const keyBytes = keys.length / 2;
      expect(target.get(keys.subarray(0, keyBytes)), name).toEqual(
        new Uint8Array(values.subarray(0, values.length / 2)),
      );
      const deleted = target.deleteBatch(keys);
      if (canDelete) expect(deleted, name).toEqual({ count: 2 });
      else expect(deleted, name).toMatchObject({ count: 0, error: { code: 'EINVAL' } });
    }
  });

  test('map types without batch operations go element by element, with the same counts', () => {
    const groups = map('groups');
    // Values are cgroup descriptors: -1 is invalid, so the kernel rejects the first element.
    const result = groups.putBatch(keysOf([0, 1]), u32(0xffffffff, 0xffffffff));
    expect(result).toMatchObject({ count: 0, error: { code: 'EBADF', op: 'bpf_map_update_elem' } });
    expect(groups.deleteBatch(keysOf([0, 1]))).toEqual({ count: 2 });
  });

  test('a batch stops at the first index past the end of an array', () => {
    const plain = map('plain');
    const size = plain.info.valueSize;
    const result = plain.putBatch(keysOf([2, 3, 4]), new Uint8Array(size * 3).fill(1));
    expect(result).toMatchObject({ count: 2, error: { code: 'E2BIG' } });
    expect(plain.get(u32(3))).toEqual(new Uint8Array(size).fill(1));
    expect(plain.get(u32(4))).toBeUndefined();
  });

  test('a queue has no keys', () => {
    const queue = map('queue');
    queue.put(new Uint8Array(), u32(5));
    expect(queue.get(new Uint8Array())).toEqual(u32(5));
    expect(caught(() => queue.putBatch(new Uint8Array(), u32(5))).code).toBe('ARGUMENT');
    expect(caught(() => queue.readAll()).code).toBe('ENOTSUP');
  });

  test('shared memory is the array itself, both ways', () => {
    const shared = map('shared');
    const memory = shared.mmap();
    expect(memory.byteLength).toBe(5 * 16);
    expect(shared.mmap()).toBe(memory);
    const words = new Uint32Array(memory);
    words[2 * 4 + 2] = 77;
    const program = object.program('touch_shared');
    expect(program.testRun({ dataIn: frame() }).retval).toBe(77);
    expect(words[2 * 4 + 1]).toBe(1);
    shared.put(u32(0), u32(1, 2, 3));
    expect([...words.subarray(0, 3)]).toEqual([1, 2, 3]);
    shared.close();
    expect(memory.byteLength).toBe(0);
    expect(words.length).toBe(0);
    program.close();
  });

  test('shared memory cannot be given to another thread', () => {
    const shared = map('shared');
    const memory = shared.mmap();
    // Node 20 copies it instead, later versions throw: in both cases it stays ours.
    try {
      structuredClone(memory, { transfer: [memory] });
    } catch (error) {
      expect(String(error)).toContain('DataCloneError');
    }
    expect(memory.byteLength).toBe(80);
    shared.close();
  });

  test('shared memory stays while its ArrayBuffer is used, without the handle', () => {
    let memory: ArrayBuffer | undefined;
    (() => {
      memory = map('shared').mmap();
    })();
    collectGarbage();
    const words = new Uint32Array(memory);
    words[0] = 5;
    expect(map('shared').get(u32(0))).toEqual(u32(5, 0, 0));
  });

  test('mmap of other maps throws ENOTSUP', () => {
    for (const name of ['table', 'plain', 'events']) {
      expect(
        caught(() => map(name).mmap()),
        name,
      ).toMatchObject({ code: 'ENOTSUP', op: 'mmap' });
    }
  });

  test('a pin outlives the handle and opens as the same map', () => {
    const path = `${bpffs.path}/table`;
    const table = map('table');
    table.put(u32(1), u64(11n));
    table.pin(path);
    expect(caught(() => table.pin(path)).code).toBe('EEXIST');
    expect(caught(() => table.pin('/tmp/not-a-bpffs')).op).toBe('bpf_obj_pin');
    const id = table.info.id;
    table.close();
    object.close();
    const again = openPinnedMap(path);
    expect(again.info).toMatchObject({
      id,
      name: 'table',
      keySize: 4,
      valueSize: 8,
      maxEntries: 8,
    });
    expect(again.get(u32(1))).toEqual(u64(11n));
    again.close();
    unlinkSync(path);
    expect(caught(() => openPinnedMap(path))).toMatchObject({ code: 'ENOENT', op: 'bpf_obj_get' });
  });

  test('reading beside a writer neither fails nor misses unchanged elements', () => {
    const large = map('large');
    const stay = range(5_000);
    large.putBatch(keysOf(stay), valuesOf(stay));
    for (let round = 0; round < 5; round++) {
      const extra = range(5_000, 5_000 + round * 1_000);
      large.putBatch(keysOf(extra), valuesOf(extra));
      const all = large.readAll();
      const seen = new Set(range(all.count).map((i) => readU32(all.keys, i)));
      expect(stay.every((key) => seen.has(key))).toBe(true);
      large.deleteBatch(keysOf(extra));
    }
  });
});
