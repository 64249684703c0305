// SPDX-License-Identifier: Apache-2.0
// A sync of more Services than a batch has: what one Service loses and another gets is never absent in between. And how many a batch has:
// few at first, more or fewer by the clock, and of large Maglev tables one.
import { describe, expect, test } from 'vitest';
import { decodeFrontendKey } from '../../../../../src/engines/bpf/layout/layout.ts';
import { type Batches, createBatches } from '../../../../../src/engines/bpf/state/batches.ts';
import { frontendText } from '../../../../../src/engines/entry.ts';
import type { Algorithm } from '../../../../../src/model/types.ts';
import type { Plan } from '../../../../../src/plan/types.ts';
import { memoryDataplane, memoryTables } from '../../../../support/dataplane/memory-dataplane.ts';
import { backend, clusterIp, planOf, servicePort } from '../plans.ts';

const MOVED = '10.96.9.9';
const others = Array.from({ length: 120 }, (_, n) =>
  servicePort(`s${n}`, [clusterIp(`10.96.0.${n}`)], [backend(`10.1.0.${n}`)]),
);
/** The Service of that name alone has the frontend. */
const deleted = (name: string) =>
  planOf(servicePort(name, [clusterIp(MOVED)], [backend('10.1.9.9')]), ...others);
/** Both Services stay. */
function given(owner: string) {
  const both = ['old', 'new'].map((name, n) => {
    const own = clusterIp(`10.96.8.${n}`);
    const frontends = name === owner ? [own, clusterIp(MOVED)] : [own];
    return servicePort(name, frontends, [backend('10.1.9.9')]);
  });
  return planOf(...both.slice(0, 1), ...others, ...both.slice(1));
}

test.each([
  ['all', 'deleted and created under another name', deleted],
  ['named', 'deleted and created under another name', deleted],
  ['all', 'that gives one to another Service', given],
  ['named', 'that gives one to another Service', given],
] as const)(
  '%s: no frontend of a Service %s is missing in between',
  async (which, _how, withMoved) => {
    const tables = memoryTables();
    const dataplane = memoryDataplane(tables);
    await dataplane.sync(withMoved('old'), 'all', []);
    const table = tables.frontend.IPv4;
    const remove = table.delete.bind(table);
    const removed: string[] = [];
    Object.assign(table, {
      delete: (keys: readonly Uint8Array[]) => {
        removed.push(...keys.map((key) => frontendText(decodeFrontendKey(key, 'IPv4'))));
        return remove(keys);
      },
    });
    const names = ['old', ...others.map(({ name }) => name), 'new'];
    const changed = which === 'all' ? 'all' : names.map((name) => `default/${name}`);
    const { failed } = await dataplane.sync(withMoved('new'), changed, []);
    expect(failed).toEqual([]);
    expect(removed).toEqual([]);
    const { frontends } = await dataplane.snapshot();
    expect(frontends.find(({ id }) => id.address === MOVED)?.port.name).toBe('new');
  },
);

const MANY = 300;

function planWith(backends: number, algorithm: Algorithm = 'random'): Plan {
  const all = Array.from({ length: backends }, (_, n) => backend(`10.1.${n >> 8}.${n & 255}`));
  const ports = Array.from({ length: MANY }, (_, n) =>
    servicePort(`s${n}`, [clusterIp(`10.96.${n >> 8}.${n & 255}`)], all, { algorithm }),
  );
  return planOf(...ports);
}

/** Sizes of the batches, if each Service takes so long. */
function sizesOf(batches: Batches, msPerService: number): readonly number[] {
  const sizes: number[] = [];
  for (let keys = batches.next(); keys.length > 0; keys = batches.next()) {
    sizes.push(keys.length);
    batches.took(keys.length * msPerService);
  }
  return sizes;
}

const batchesOf = (plan: Plan) => createBatches(plan, plan.services.keys());

describe('Services of 10 endpoints', () => {
  test.each([
    ['0.05 ms', 0.05, 50],
    ['0.5 ms, as under load', 0.5, 10],
    ['20 ms, as if nothing else ran', 20, 10],
  ])('that take %s each', (_, msPerService, most) => {
    const [first = 0, ...later] = sizesOf(batchesOf(planWith(10)), msPerService);
    expect(first).toBeLessThan(5);
    expect(Math.max(...later)).toBe(most);
    expect(first + later.reduce((sum, size) => sum + size, 0)).toBe(MANY);
  });

  test('with tables of 1,009 entries are fewer', () => {
    const sizes = sizesOf(batchesOf(planWith(10, 'maglev')), 0.05);
    expect(Math.max(...sizes)).toBeGreaterThan(20);
    expect(Math.max(...sizes)).toBeLessThan(40);
  });
});

test('a Service with a table of 131,071 entries is alone', () => {
  expect(new Set(sizesOf(batchesOf(planWith(100, 'maglev')), 0.01))).toEqual(new Set([1]));
});

test('a Service that is gone counts, too', () => {
  const gone = Array.from({ length: MANY }, (_, n) => `default/gone-${n}`);
  const sizes = sizesOf(createBatches(planOf(), gone), 0.05);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(MANY);
  expect(sizes.length).toBeGreaterThan(1);
});
