// SPDX-License-Identifier: Apache-2.0
// Ids and blocks freed by this agent or by one that died need a grace period. A failed wait must not end the agent,
// leak what waits for it, or release it early.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { BACKEND_STATE, backendStateOffset } from '../../../../../src/engines/bpf/layout/layout.ts';
import type { Dataplane } from '../../../../../src/engines/dataplane.ts';
import { memoryDataplane, memoryTables } from '../../../../support/dataplane/memory-dataplane.ts';
import type { MemoryTables } from '../../../../support/tables/memory.ts';
import { backend, clusterIp, planOf, servicePort } from '../plans.ts';

const web = (...hosts: number[]) =>
  planOf(
    servicePort(
      'web',
      [clusterIp('10.96.0.10')],
      hosts.map((host) => backend(`10.1.1.${host}`)),
      { serving: [] },
    ),
  );

let tables: MemoryTables;
let dataplane: Dataplane;
let wait: () => Promise<void>;
let told: string[];

/** States of the backend elements, by id. */
const states = (): readonly number[] =>
  [1, 2, 3, 4].map((id) =>
    tables.backend.IPv4.view(id).getUint8(
      tables.backend.IPv4.offset(id) + backendStateOffset('IPv4'),
    ),
  );
const { FREE, ACTIVE, GONE } = BACKEND_STATE;
const used = (): number =>
  dataplane.counters().tables.find(({ name }) => name === 'backend ids')?.used ?? -1;
/** Lets setImmediate and promises run; no timer does. */
const turns = (): Promise<unknown> => vi.advanceTimersByTimeAsync(1);

function open(): Dataplane {
  return memoryDataplane(tables, {
    waitGracePeriod: () => wait(),
    log: {
      warn: (_fields: unknown, text?: string) => void told.push(text ?? ''),
      info: (fields: unknown, text?: string) => void told.push(`${text} ${JSON.stringify(fields)}`),
    },
  });
}

beforeEach(() => {
  vi.useFakeTimers();
  tables = memoryTables();
  told = [];
  wait = () => Promise.resolve();
  dataplane = open();
});
afterEach(() => {
  dataplane.close();
  vi.useRealTimers();
});

describe('a wait that fails', () => {
  test('is retried for all that depends on it, and logged once', async () => {
    await dataplane.sync(web(1, 2), 'all', []);
    await turns();
    let tries = 0;
    wait = () => {
      tries++;
      return tries <= 3 ? Promise.reject(new Error('ENOMEM')) : Promise.resolve();
    };
    await dataplane.sync(web(1), ['default/web'], []);
    await turns();
    expect(states()).toEqual([ACTIVE, GONE, FREE, FREE]);
    expect(used()).toBe(2);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(states()).toEqual([ACTIVE, FREE, FREE, FREE]);
    expect(used()).toBe(1);
    expect(tries).toBe(4);
    expect(told).toEqual([
      'waiting for a grace period failed, will retry',
      'waiting for a grace period works again {"failures":3}',
    ]);
  });

  test('does not delay syncs', async () => {
    await dataplane.sync(web(1, 2), 'all', []);
    wait = () => Promise.reject(new Error('ENOMEM'));
    for (const host of [3, 4, 5]) {
      const report = await dataplane.sync(web(host), ['default/web'], []);
      expect(report.failed).toEqual([]);
    }
    const { backends } = await dataplane.snapshot();
    expect(backends.map(({ backend: text }) => text)).toEqual(['10.1.1.5:8080']);
  });

  test('ends with the dataplane', async () => {
    await dataplane.sync(web(1), 'all', []);
    await turns();
    wait = () => Promise.reject(new Error('ENOMEM'));
    await dataplane.sync(web(2), 'all', []);
    await turns();
    dataplane.close();
    await turns();
    expect(vi.getTimerCount()).toBe(0);
    expect(states().slice(0, 2)).toEqual([GONE, ACTIVE]);
  });

  test('after the dataplane is closed is neither logged nor retried', async () => {
    await dataplane.sync(web(1), 'all', []);
    await turns();
    let fail = (_error: Error): void => undefined;
    wait = () =>
      new Promise((_resolve, reject) => {
        fail = reject;
      });
    await dataplane.sync(web(2), 'all', []);
    await turns();
    dataplane.close();
    fail(new Error('ENOMEM'));
    await turns();
    expect(vi.getTimerCount()).toBe(0);
    expect(told).toEqual([]);
  });
});

describe('after an agent died before it released what was freed', () => {
  test('nothing is written before a grace period has passed', async () => {
    await dataplane.sync(web(1, 2), 'all', []);
    wait = () => new Promise(() => undefined);
    await dataplane.sync(web(1), ['default/web'], []);
    dataplane.close();
    const before = { blocks: tables.slotBlock.bytes.slice(), states: states() };
    let pass = (): void => undefined;
    wait = () =>
      new Promise((resolve) => {
        pass = resolve;
      });
    dataplane = open();
    const sync = dataplane.sync(web(3, 4), 'all', []);
    await turns();
    expect(states()).toEqual(before.states);
    expect(Buffer.compare(tables.slotBlock.bytes, before.blocks)).toBe(0);
    pass();
    await sync;
    expect((await dataplane.snapshot()).backends.map(({ backend: text }) => text)).toEqual([
      '10.1.1.3:8080',
      '10.1.1.4:8080',
    ]);
  });
});
