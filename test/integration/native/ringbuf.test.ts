// SPDX-License-Identifier: Apache-2.0
// Ring buffers: order, a responsive event loop, back-pressure, and a clean stop.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  type BpfMap,
  type BpfObject,
  type BpfProgram,
  openRingBuffer,
} from '../../../src/sys/native.ts';
import { until } from '../../support/until.ts';
import { caught } from './support/errors.ts';
import { frame, loadFixture, missing, readU32 } from './support/fixture.ts';

// One record takes 8 bytes of header and 8 of data.
const ringRecords = 65_536 / 16;

describe.skipIf(missing !== undefined)('ring buffers', () => {
  let object: BpfObject;
  let events: BpfMap;
  let emit: BpfProgram;
  beforeEach(() => {
    object = loadFixture();
    events = object.map('events');
    emit = object.program('emit');
  });
  afterEach(() => {
    events.close();
    emit.close();
    object.close();
  });

  /** Writes records; returns the result of the last run: 1 if the ring was full. */
  const write = (count: number) => emit.testRun({ dataIn: frame(), repeat: count }).retval;
  const inOrder = (numbers: number[]) => numbers.every((number, index) => number === index);

  test('records arrive in order while the event loop runs', async () => {
    const seen: number[] = [];
    let turns = 0;
    const ring = openRingBuffer(events, (record) => seen.push(readU32(record)));
    const timer = setInterval(() => {
      turns += 1;
    }, 1);
    for (let round = 0; round < 10; round++) {
      write(1_000);
      await until(() => seen.length >= (round + 1) * 1_000, 'the records');
    }
    clearInterval(timer);
    ring.close();
    expect(seen.length).toBe(10_000);
    expect(inOrder(seen)).toBe(true);
    expect(turns).toBeGreaterThan(5);
  });

  test('a record is a copy that does not change', async () => {
    const records: Uint8Array[] = [];
    const ring = openRingBuffer(events, (record) => records.push(record));
    write(300);
    await until(() => records.length === 300, 'the records');
    write(300);
    await until(() => records.length === 600, 'the records');
    expect(inOrder(records.map((record) => readU32(record)))).toBe(true);
    expect(records[0]?.length).toBe(4);
    ring.close();
  });

  test('one iteration of the event loop delivers about 256 records, then other callbacks run', async () => {
    let turn = 0;
    let isOver = false;
    const perTurn = new Map<number, number>();
    const next = () => {
      turn += 1;
      if (!isOver) setImmediate(next);
    };
    setImmediate(next);
    let total = 0;
    const ring = openRingBuffer(events, () => {
      total += 1;
      perTurn.set(turn, (perTurn.get(turn) ?? 0) + 1);
    });
    write(4_000);
    await until(() => total === 4_000, 'the records');
    isOver = true;
    ring.close();
    expect(perTurn.size).toBeGreaterThan(4);
    expect(Math.max(...perTurn.values())).toBeLessThanOrEqual(2 * 256);
  });

  test('a blocked event loop leaves records in the ring, which fills up', async () => {
    const seen: number[] = [];
    const ring = openRingBuffer(events, (record) => seen.push(readU32(record)));
    // The event loop is blocked here: the queue and then the ring fill up; then records are lost.
    let written = 0;
    const end = Date.now() + 10_000;
    while (write(1) === 0 && Date.now() < end) written += 1;
    expect(written).toBeGreaterThanOrEqual(ringRecords - 1);
    expect(written).toBeLessThan(4 * ringRecords);
    await until(() => seen.length === written, 'the records');
    expect(inOrder(seen)).toBe(true);
    // Delivery resumes.
    expect(write(1)).toBe(0);
    await until(() => seen.length === written + 1, 'the records');
    ring.close();
  });

  test('close() inside the callback delivers nothing more', async () => {
    let count = 0;
    const ring = openRingBuffer(events, () => {
      count += 1;
      if (count === 3) ring.close();
    });
    write(500);
    await until(() => count === 3, 'the records');
    await new Promise((resolve) => setImmediate(resolve));
    ring.close();
    expect(count).toBe(3);
    let later = 0;
    const second = openRingBuffer(events, () => {
      later += 1;
    });
    write(10);
    await until(() => later >= 10, 'the records');
    second.close();
  });

  test('the ring works without the handle of its map', async () => {
    let count = 0;
    const ring = openRingBuffer(events, () => {
      count += 1;
    });
    events.close();
    write(5);
    await until(() => count === 5, 'the records');
    ring.close();
  });

  test('an exception in the callback is an uncaught exception, and later records are delivered', async () => {
    const thrown: unknown[] = [];
    const keep = (error: unknown) => thrown.push(error);
    const before = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', keep);
    let count = 0;
    const ring = openRingBuffer(events, () => {
      count += 1;
      if (count === 2) throw null;
      if (count === 3) throw new Error('from the callback');
    });
    write(10);
    await until(() => count === 10, 'the records');
    ring.close();
    process.removeListener('uncaughtException', keep);
    for (const listener of before) process.on('uncaughtException', listener);
    expect(thrown).toEqual([null, new Error('from the callback')]);
  });

  test('invalid arguments are rejected', () => {
    const table = object.map('table');
    expect(caught(() => openRingBuffer(table, () => {})).code).toBe('ARGUMENT');
    expect(caught(() => openRingBuffer(events, 1 as never)).code).toBe('ARGUMENT');
    expect(caught(() => openRingBuffer({} as never, () => {})).code).toBe('ARGUMENT');
    events.close();
    expect(caught(() => openRingBuffer(events, () => {})).code).toBe('CLOSED');
    table.close();
  });
});
