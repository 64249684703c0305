// SPDX-License-Identifier: Apache-2.0
// Weights as tables: how many entries each backend has, in which order, and what becomes of a table when the agent
// starts again or somebody writes into it.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeFrontend, decodeU32, hasTable } from '../../../../src/engines/bpf/layout/layout.ts';
import {
  entriesOf,
  tableOrder,
} from '../../../../src/engines/bpf/rows/service-port/set-content.ts';
import { findDrift } from '../../../../src/engines/bpf/state/audit.ts';
import { createTableSync } from '../../../../src/engines/bpf/state/table-sync.ts';
import { element } from '../../../../src/engines/bpf/state/tables.ts';
import type { Backend } from '../../../../src/plan/types.ts';
import { applyAll } from '../../../support/dataplane/apply-all.ts';
import { tableEntries } from '../../../support/dataplane/set-table.ts';
import { createMemoryTables, type MemoryTables } from '../../../support/tables/memory.ts';
import { backend, clusterIp, planOf, servicePort } from './plans.ts';

describe('entries of a table', () => {
  test.each<[string, readonly number[], readonly number[]]>([
    ['are the weights', [3, 1], [3, 1]],
    ['are divided by what the weights have in common', [300, 100, 200], [3, 1, 2]],
    ['are exact for a thousandth', [999, 1], [999, 1]],
    ['are apportioned if there are too many', [65_535, 65_534], [512, 512]],
    ['are never none', [65_535, 1], [1023, 1]],
  ])('%s: %j', (_, weights, entries) => {
    expect(entriesOf(weights)).toEqual(entries);
  });

  test('are off by less than one of 1,024, or of four for each backend, unless one would have none', () => {
    const weights = fc.array(fc.integer({ min: 1, max: 65_535 }), { minLength: 2, maxLength: 400 });
    fc.assert(
      fc.property(weights, (list) => {
        const sum = list.reduce((total, weight) => total + weight, 0);
        const entries = entriesOf(list);
        const room = Math.max(1024, 4 * list.length);
        for (const [index, weight] of list.entries()) {
          const share = (weight * room) / sum;
          const count = entries[index] ?? 0;
          expect(count).toBeGreaterThanOrEqual(1);
          if (entries.reduce((a, b) => a + b, 0) < room) continue; // exact
          expect(Math.abs(count - share)).toBeLessThanOrEqual(1);
        }
      }),
    );
  });

  test('are spread: no backend has two in a row while others wait for longer than their distance', () => {
    expect(tableOrder([3, 1])).toEqual([0, 0, 1, 0]);
    expect(tableOrder([2, 2])).toEqual([0, 1]);
    expect(tableOrder([4, 3, 2])).toEqual([0, 1, 2, 0, 1, 0, 2, 1, 0]);
  });
});

const SIZES = { frontends: 64, backends: 64, slotBlocks: 32, services: 16 };
const weighted = (host: number, weight: number): Backend => ({
  ...backend(`10.1.1.${host}`),
  weight,
});
const web = (...backends: readonly Backend[]) =>
  planOf(servicePort('web', [clusterIp('10.96.0.10')], backends, { algorithm: 'weighted-random' }));

function start(tables: MemoryTables = createMemoryTables(SIZES)) {
  return { tables, dataplane: createTableSync(tables, () => Promise.resolve()) };
}

const ruleOf = (tables: MemoryTables) => {
  const held = tables.frontend.IPv4.readAll().map(({ value }) =>
    decodeFrontend(element(tables.frontendRecord, decodeU32(value))),
  );
  const found = held.find(({ key }) => key.port === 80);
  if (found === undefined) throw new Error('no frontend');
  return found.rules.pod;
};

describe('a set with weights', () => {
  test('has a table behind its members', () => {
    const { tables, dataplane } = start();
    applyAll(dataplane, web(weighted(5, 3), weighted(6, 1)));
    const rule = ruleOf(tables);
    expect(rule).toMatchObject({ kind: 'weighted-random', members: 2 });
    expect(tableEntries(tables, rule)).toEqual([1, 1, 2, 1]);
  });

  test('has none where all weights are equal, and no cost', () => {
    const { tables, dataplane } = start();
    applyAll(dataplane, web(weighted(5, 7), weighted(6, 7)));
    const rule = ruleOf(tables);
    expect(rule).toMatchObject({ kind: 'random', members: 2 });
    expect(hasTable(rule.kind)).toBe(false);
    expect(dataplane.ledger.blocks.used()).toBe(1);
  });

  test('becomes another set when a weight changes, and frees all its blocks', async () => {
    const { tables, dataplane } = start();
    applyAll(dataplane, web(weighted(5, 30), weighted(6, 1)));
    expect(dataplane.ledger.blocks.used()).toBe(1 + 2);
    const before = ruleOf(tables).block;
    applyAll(dataplane, web(weighted(5, 1), weighted(6, 2)));
    await dataplane.releaseRetired();
    expect(ruleOf(tables).block).not.toBe(before);
    expect(tableEntries(tables, ruleOf(tables))).toEqual([2, 1, 2]);
    expect(dataplane.ledger.blocks.used()).toBe(1 + 1);
  });

  test('is adopted with its table by the next agent', () => {
    const { tables, dataplane } = start();
    const plan = web(weighted(5, 30), weighted(6, 1));
    applyAll(dataplane, plan);
    const again = start(tables).dataplane;
    expect(again.ledger.blocks.used()).toBe(1 + 2);
    expect(applyAll(again, plan).applied).toBe(0);
  });

  test('is written anew if somebody has changed its table', () => {
    const { tables, dataplane } = start();
    const plan = web(weighted(5, 3), weighted(6, 1));
    applyAll(dataplane, plan);
    const { block } = ruleOf(tables);
    tables.slotBlock.view(block + 1).setUint32(tables.slotBlock.offset(block + 1) + 4, 2, true);
    expect([...findDrift(dataplane.ledger)].flat().map(({ text }) => text)).toEqual([
      `set at block ${block} of default/web:http/TCP/IPv4 differs`,
    ]);
    applyAll(dataplane, plan);
    expect(ruleOf(tables).block).not.toBe(block);
    expect(tableEntries(tables, ruleOf(tables))).toEqual([1, 1, 2, 1]);
  });

  test('whose table ends outside of the map is written anew by the next agent', () => {
    const { tables, dataplane } = start();
    const plan = web(weighted(5, 3), weighted(6, 1));
    applyAll(dataplane, plan);
    const { block } = ruleOf(tables);
    tables.slotBlock.view(block + 1).setUint32(tables.slotBlock.offset(block + 1), 0xffffff, true);
    const again = start(tables).dataplane;
    expect(applyAll(again, plan).failed).toEqual([]);
    expect(tableEntries(tables, ruleOf(tables))).toEqual([1, 1, 2, 1]);
  });
});
