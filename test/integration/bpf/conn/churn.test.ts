// SPDX-License-Identifier: Apache-2.0
// Two CPUs begin, find, confirm, renew and end the same connections (bpf/test/conn): no record is ever lost, doubled, torn or another
// key's, and no confirmed one is evicted. `CHURN_SECONDS=600 npx vitest run --project bpf test/integration/bpf/conn/churn.test.ts` runs
// longer.
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Family } from '../../../../src/model/types.ts';
import type { BpfObject } from '../../../../src/sys/native.ts';
import { makeBpffs, type TestResource } from '../../native/support/resources.ts';
import { onOneCpu } from '../support/one-cpu.ts';
import { auditAndEmpty, countsOf } from './support/audit.ts';
import { ConnTable, FAMILIES, openTable, suffixOf } from './support/conn-table.ts';

const addon = fileURLToPath(new URL('../../../../build/native/fairlead.node', import.meta.url));
const worker = new URL('./support/churn-worker.mjs', import.meta.url);

/** Of a run on each CPU: 256 rounds each. Fewer where other work has the CPUs. */
const RUNS = 6_000;
const SECONDS = Number(process.env['CHURN_SECONDS'] ?? 3);
const ANY_NUMBER = Number.MAX_SAFE_INTEGER;

/** In much room; where all meet in eight buckets; and where some are always evicted. */
const CROWDS = [
  { buckets: 1_024, keys: 3_000, ports: 4_096 },
  { buckets: 8, keys: 30, ports: 64 },
  { buckets: 4, keys: 60, ports: 4_096 },
] as const;
type Crowd = (typeof CROWDS)[number];

const COUNTED = [
  'begun',
  'doubled',
  'taken',
  'noRoom',
  'ended',
  'confirmed',
  'renewed',
  'foreign',
  'lostReply',
  'notFound',
  'gone',
  'twice',
] as const;
const NOTHING_WRONG = { foreign: 0, lostReply: 0, notFound: 0, gone: 0, twice: 0 };

const otherCpu = onOneCpu();
let bpffs: TestResource;
beforeEach(() => {
  bpffs = makeBpffs();
});
afterEach(() => bpffs.release());

function openChurn({ buckets, keys, ports }: Crowd): BpfObject {
  const object = openTable('conn_churn', buckets, { keys, ports });
  object.setMaxEntries('sure', keys);
  object.load();
  return object;
}

/** Of all CPUs. */
function countedBy(object: BpfObject): Readonly<Record<(typeof COUNTED)[number], number>> {
  const bytes = object.map('counted').get(new Uint8Array(4))!;
  const values = new BigUint64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 8);
  const sum = (at: number): number =>
    values.reduce((total, value, n) => total + (n % COUNTED.length === at ? Number(value) : 0), 0);
  return Object.fromEntries(COUNTED.map((name, at) => [name, sum(at)])) as never;
}

async function churn(object: BpfObject, family: Family): Promise<void> {
  const pin = join(bpffs.path, 'churn');
  object.program(`churn${suffixOf(family)}`).pin(pin);
  const runs = process.env['CHURN_SECONDS'] === undefined ? RUNS : ANY_NUMBER;
  const workerData = { addon, pin, runs, seconds: SECONDS / CROWDS.length };
  const workers = ['0', otherCpu ?? '0'].map(
    (cpu) => new Worker(worker, { workerData: { ...workerData, cpu } }),
  );
  await Promise.all(workers.map((one) => once(one, 'exit')));
}

describe.skipIf(otherCpu === undefined).each(FAMILIES)('%s', (family) => {
  test.each(CROWDS)('$keys keys in $buckets buckets', async (crowd) => {
    const object = openChurn(crowd);
    const table = new ConnTable(family, crowd.buckets, object);
    try {
      await churn(object, family);
      const counted = countedBy(object);
      const counts = countsOf(object, family);
      process.stdout.write(
        `${family} ${JSON.stringify({ ...counted, evicted: counts.evicted })}\n`,
      );
      expect(counted).toMatchObject(NOTHING_WRONG);
      expect(auditAndEmpty(table)).toEqual([]);
      expect(counted.ended).toBeGreaterThan(0);
    } finally {
      table.close();
      object.close();
    }
  });
});
