// SPDX-License-Identifier: Apache-2.0
// A program ends a connection by a copy of its record, which may be stale by then.
import { once } from 'node:events';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { makeBpffs } from '../../native/support/resources.ts';
import { onOneCpu } from '../support/one-cpu.ts';
import { auditAndEmpty, recordAt } from './support/audit.ts';
import { BUSY, ConnTable, FAMILIES, suffixOf } from './support/conn-table.ts';
import { AT } from './support/operation.ts';

const addon = fileURLToPath(new URL('../../../../build/native/fairlead.node', import.meta.url));
const worker = new URL('./support/churn-worker.mjs', import.meta.url);
const RUNS = 300_000;
const READS = 10_000;

const otherCpu = onOneCpu();
let table: ConnTable;
afterEach(() => table.close());

describe.each(FAMILIES)('%s', (family) => {
  beforeEach(() => {
    table = new ConnTable(family, 100);
  });

  test('a copy ends the connection, once', () => {
    table.begin({ id: 7 });
    const copy = table.copy({ id: 7 });
    expect([table.endCopy(copy), table.endCopy(copy)]).toEqual([true, false]);
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test.each([
    ['renewed', AT.seen],
    ['changed', AT.state],
  ])('what a packet has %s since the copy was taken is ended by that packet alone', (_, at) => {
    table.begin({ id: 7 });
    const copy = table.copy({ id: 7 });
    recordAt(table.object, family, table.find({ id: 7 })!.index)[at]! += 1;
    expect(table.endUnchanged(copy)).toBe(false);
    expect(table.find({ id: 7 })).toBeDefined();
    expect(table.endCopy(copy)).toBe(true);
    table.begin({ id: 7 });
    expect(table.endUnchanged(table.copy({ id: 7 }))).toBe(true);
    expect(auditAndEmpty(table)).toEqual([]);
  });

  test.skipIf(otherCpu === undefined)(
    'a copy of the connection before never locks the slot of the next one',
    async () => {
      table.begin({ id: 7 });
      const copy = table.copy({ id: 7 });
      table.release({ id: 7 });
      table.now += 1;
      table.begin({ id: 7 });
      const words = new Uint32Array(table.index('client'));
      const at = words.findIndex((word) => word !== 0);
      const bpffs = makeBpffs();
      try {
        const pin = join(bpffs.path, 'end');
        table.object.program(`conn_operate${suffixOf(family)}`).pin(pin);
        const dataIn = new Uint8Array(copy.buffer);
        const workerData = { addon, pin, cpu: otherCpu, runs: RUNS, seconds: 1, dataIn };
        const ending = { isOver: false, busy: 0 };
        const exit = once(new Worker(worker, { workerData }), 'exit').then(() => {
          ending.isOver = true;
        });
        while (!ending.isOver) {
          for (let read = 0; read < READS; read += 1) {
            if ((words[at]! & BUSY) !== 0) ending.busy += 1;
          }
          await setImmediate();
        }
        await exit;
        expect(ending.busy).toBe(0);
      } finally {
        bpffs.release();
      }
      expect(table.find({ id: 7 })).toBeDefined();
      expect(auditAndEmpty(table)).toEqual([]);
    },
  );
});
