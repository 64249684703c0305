// SPDX-License-Identifier: Apache-2.0
// A dataplane that is opened over larger tables while the agent runs, over dataplanes that exist in tests alone.
import { describe, expect, test } from 'vitest';
import { FIRST_CONNECTIONS } from '../../../../../src/engines/bpf/conn/growth.ts';
import { NO_FEATURES } from '../../../../../src/engines/bpf/features.ts';
import { type Connections, openGrowing } from '../../../../../src/engines/bpf/kernel/growing.ts';
import type { Look } from '../../../../../src/engines/bpf/kernel/packet/sweeping.ts';
import type { Features } from '../../../../../src/engines/bpf/layout/packet-layout.ts';
import { BPF } from '../../../../../src/engines/capabilities.ts';
import type { Dataplane } from '../../../../../src/engines/dataplane.ts';
import { FakeClock } from '../../../source/apiserver/support/fake-clock.ts';
import { type FakeDataplane, fakeDataplane } from '../../support.ts';
import { backend, clusterIp, planOf, servicePort } from '../plans.ts';

const LIMIT = 1_048_576;
const AGAIN_MS = 600_000;
const PLAN = planOf(servicePort('web', [clusterIp('10.96.0.10')], [backend('10.0.0.1')]));

interface Opened {
  readonly made: Connections;
  readonly features: Features;
  readonly look: Look;
  readonly dataplane: FakeDataplane;
  readonly told: string[];
}

async function start() {
  const opened: Opened[] = [];
  const log: string[] = [];
  const clock = new FakeClock();
  /** Thrown by the next openings, in order; undefined: it opens. */
  const errors: (Error | undefined)[] = [];
  const next: { failure: FakeDataplane['failure']; left: Connections } = {
    failure: 'none',
    left: { IPv4: FIRST_CONNECTIONS, IPv6: FIRST_CONNECTIONS },
  };
  let wait: Promise<void> = Promise.resolve();
  const note = (_fields: unknown, text?: string): void => void log.push(text ?? '');
  const dataplane = await openGrowing({
    async open(made, features, look) {
      await wait;
      const error = errors.shift();
      if (error !== undefined) throw error;
      const fake = fakeDataplane({ ...BPF, dataplane: `bpf ${opened.length}` });
      fake.failure = next.failure;
      const told: string[] = [];
      Object.assign(fake, {
        leaveNewPackets: (isLeft: boolean) => told.push(`leave ${isLeft}`),
        packetsAreServed: (by: string) => told.push(`served by ${by}`),
        servePackets: (isServed: boolean) => told.push(`serve ${isServed}`),
      });
      opened.push({ made, features, look, dataplane: fake, told });
      return fake;
    },
    left: () => next.left,
    firstFeatures: NO_FEATURES,
    ...{ limit: LIMIT, clock, log: { info: note, warn: note, error: note } },
  });
  return {
    ...{ dataplane, opened, log, clock, errors, next },
    last: (): Opened => opened.at(-1)!,
    holdOpening(): () => void {
      let release: () => void = () => undefined;
      wait = new Promise((resolve) => (release = resolve));
      return release;
    },
  };
}

const look = ({ look: tell }: Opened, IPv4: number, IPv6 = 0): void => {
  const row = (used: number) => ({ used, halfOpen: 0, evicted: 0, noRoom: 0 });
  tell({ IPv4: row(IPv4), IPv6: row(IPv6) });
};

/** All that was asked for before has been done. */
const idle = (dataplane: Dataplane) => dataplane.held();

test('it is closed, opened over the larger table, and programmed as before', async () => {
  const { dataplane, opened, log, last } = await start();
  await dataplane.sync(PLAN, 'all', []);
  look(last(), 40_000);
  await idle(dataplane);
  const [first, second] = opened;
  expect(opened.map(({ made }) => made)).toEqual([
    { IPv4: FIRST_CONNECTIONS, IPv6: FIRST_CONNECTIONS },
    { IPv4: 4 * FIRST_CONNECTIONS, IPv6: FIRST_CONNECTIONS },
  ]);
  expect(first!.dataplane.isClosed).toBe(true);
  expect(second!.dataplane.lines()).toEqual(first!.dataplane.lines());
  expect(second!.dataplane.lines()).not.toEqual([]);
  expect(log).toEqual(['the table of connections has grown']);
  expect(dataplane.capabilities.dataplane).toBe('bpf 1');
});

test('each family grows by itself, and again', async () => {
  const { dataplane, opened, last } = await start();
  look(last(), 0, 40_000);
  await idle(dataplane);
  look(last(), 40_000, 140_000);
  await idle(dataplane);
  expect(opened.at(-1)?.made).toEqual({ IPv4: 4 * FIRST_CONNECTIONS, IPv6: LIMIT });
});

test('a table with room stays', async () => {
  const { dataplane, opened, last } = await start();
  look(last(), 100);
  await idle(dataplane);
  expect(opened).toHaveLength(1);
});

test('changes wait, and what is read meanwhile is what was read last', async () => {
  const { dataplane, opened, last, holdOpening } = await start();
  const release = holdOpening();
  look(last(), 40_000);
  look(last(), 40_000);
  const synced = dataplane.sync(PLAN, 'all', []);
  await new Promise(setImmediate);
  expect(opened[0]?.dataplane.isClosed).toBe(true);
  expect(dataplane.counters().tables).toMatchObject([{ name: 'bpf 0' }]);
  expect(dataplane.capabilities.dataplane).toBe('bpf 0');
  expect(dataplane.installation.bpfRoot).toBe('/bpf');
  expect(dataplane.devices?.()).toEqual([]);
  release();
  expect((await synced).failed).toEqual([]);
  expect(opened).toHaveLength(2);
  expect(dataplane.counters().tables).toMatchObject([{ name: 'bpf 1' }]);
});

test('connections of Services are read meanwhile as they were last, at each scrape', async () => {
  const { dataplane, opened, last, holdOpening } = await start();
  const release = holdOpening();
  const fake = opened[0]!.dataplane;
  fake.counters = () =>
    ({ tables: [], outcomes: {}, connections: rows(), traffic: rows() }) as never;
  // As over maps: made when they are asked for, once.
  function* rows() {
    if (fake.isClosed) throw new Error('the map is closed');
    yield 'web';
  }
  look(last(), 40_000);
  await new Promise(setImmediate);
  expect(fake.isClosed).toBe(true);
  for (let scrape = 0; scrape < 2; scrape += 1) {
    const { connections, traffic } = dataplane.counters();
    expect([[...connections], [...(traffic ?? [])]]).toEqual([['web'], ['web']]);
  }
  release();
  await idle(dataplane);
});

test('what the first was told the next one is told before it is programmed', async () => {
  const { dataplane, opened, last, holdOpening } = await start();
  dataplane.packetsAreServed?.('another');
  dataplane.servePackets?.(false);
  const release = holdOpening();
  look(last(), 40_000);
  await new Promise(setImmediate);
  dataplane.leaveNewPackets?.(true);
  dataplane.packetsAreServed?.('itself');
  release();
  await idle(dataplane);
  expect(opened[1]?.told).toEqual(['served by itself', 'serve false', 'leave true']);
});

test('room of the next one is told to the same listener', async () => {
  const { dataplane, last } = await start();
  let rooms = 0;
  dataplane.onRoom(() => rooms++);
  look(last(), 40_000);
  await idle(dataplane);
  last().dataplane.tellRoom();
  expect(rooms).toBe(1);
});

describe('failures', () => {
  const NO_MEMORY = new Error('no memory');

  test('it stays as large as it is, and tries again later', async () => {
    const { dataplane, opened, log, clock, errors, last } = await start();
    await dataplane.sync(PLAN, 'all', []);
    errors.push(NO_MEMORY);
    look(last(), 40_000);
    await idle(dataplane);
    expect(last().made.IPv4).toBe(FIRST_CONNECTIONS);
    expect(last().dataplane.lines()).not.toEqual([]);
    expect(log).toEqual([
      'the table of connections cannot grow: it stays as large as it is, and fairlead tries again in ten minutes',
    ]);
    look(last(), 40_000);
    await idle(dataplane);
    expect(opened).toHaveLength(2);
    clock.advance(AGAIN_MS);
    look(last(), 40_000);
    await idle(dataplane);
    expect(last().made.IPv4).toBe(4 * FIRST_CONNECTIONS);
  });

  test('with its maps already in their place, it opens over these', async () => {
    const { dataplane, errors, next, last } = await start();
    errors.push(NO_MEMORY);
    next.left = { IPv4: 4 * FIRST_CONNECTIONS, IPv6: FIRST_CONNECTIONS };
    look(last(), 40_000);
    await idle(dataplane);
    expect(last().made).toEqual(next.left);
  });

  test('if it does not open at all, the next call tries again', async () => {
    const { dataplane, log, errors, last } = await start();
    await dataplane.sync(PLAN, 'all', []);
    errors.push(NO_MEMORY, NO_MEMORY, NO_MEMORY);
    look(last(), 40_000);
    await expect(dataplane.sync(PLAN, 'all', [])).rejects.toThrow('no memory');
    expect(log.at(-1)).toBe('the dataplane is closed: Services do not change until it opens');
    expect(dataplane.counters().tables).toMatchObject([{ name: 'bpf 0' }]);
    await dataplane.sync(PLAN, 'all', []);
    expect(last().made.IPv4).toBe(FIRST_CONNECTIONS);
    expect(last().dataplane.lines()).not.toEqual([]);
  });

  test.each(['entries', 'throws'] as const)('%s: an audit is asked for', async (failure) => {
    const { dataplane, last, next } = await start();
    let losses = 0;
    dataplane.onLoss?.(() => losses++);
    await dataplane.sync(PLAN, 'all', []);
    next.failure = failure;
    look(last(), 40_000);
    await idle(dataplane);
    expect(losses).toBe(1);
    expect(last().made.IPv4).toBe(4 * FIRST_CONNECTIONS);
  });

  test('closed while it grows: what is opened is closed', async () => {
    const { dataplane, opened, last, holdOpening } = await start();
    const release = holdOpening();
    look(last(), 40_000);
    const waiting = idle(dataplane);
    await new Promise(setImmediate);
    dataplane.close();
    release();
    await expect(waiting).rejects.toThrow('closed');
    expect(opened.map(({ dataplane: one }) => one.isClosed)).toEqual([true, true]);
  });
});

describe('programs with more features', () => {
  const IPV6 = planOf(
    servicePort('web', [clusterIp('fd00::10')], [backend('fd01::1')], { family: 'IPv6' }),
  );
  const DIRECT = { ...PLAN, wantsDirectReturn: true } as const;

  test('are there before the first plan that needs them is programmed', async () => {
    const { dataplane, opened, log } = await start();
    await dataplane.sync(PLAN, 'all', []);
    await dataplane.sync(PLAN, 'all', []);
    expect(opened.map(({ features }) => features)).toEqual([{ ipv6: false, directReturn: false }]);
    await dataplane.sync(IPV6, ['default/web'], []);
    expect(opened.map(({ features }) => features.ipv6)).toEqual([false, true]);
    const [first, second] = opened;
    expect(first!.dataplane.isClosed).toBe(true);
    expect(first!.dataplane.lines().join(), 'its programs have no IPv6').not.toContain('fd00::10');
    expect(second!.dataplane.lines().join()).toContain('fd00::10');
    expect(log).toEqual(['packet programs loaded anew']);
  });

  test('stay when no Service needs them, and when the table grows', async () => {
    const { dataplane, opened, last } = await start();
    await dataplane.sync(IPV6, 'all', []);
    await dataplane.sync(PLAN, 'all', []);
    look(last(), 40_000);
    await idle(dataplane);
    expect(opened.map(({ features }) => features.ipv6)).toEqual([false, true, true]);
  });

  test('loaded by an audit: a larger table has the plan of the audit', async () => {
    const { dataplane, opened, last } = await start();
    await dataplane.sync(PLAN, 'all', []);
    await dataplane.audit(IPV6, []);
    look(last(), 40_000);
    await idle(dataplane);
    expect(opened.length).toBe(3);
    expect(last().dataplane.lines().join()).toContain('fd00::10');
  });

  test('with direct return only where the kernel has it', async () => {
    const { dataplane, opened, last } = await start();
    Object.assign(last().dataplane, { capabilities: { ...BPF, directReturn: false } });
    await dataplane.sync(DIRECT, 'all', []);
    expect(opened.length).toBe(1);
    Object.assign(last().dataplane, { capabilities: { ...BPF, directReturn: true } });
    await dataplane.audit(DIRECT, []);
    expect(last().features).toEqual({ ipv6: true, directReturn: true });
  });

  test('not where the kernel has refused the packet layer', async () => {
    const { dataplane, opened, last } = await start();
    const refused = [{ layer: 'packet layer', reason: 'too old' }];
    Object.assign(last().dataplane.installation, { refused });
    await dataplane.sync(IPV6, 'all', []);
    expect(opened.length).toBe(1);
  });

  test('refused: all others are served as before, and it is retried later', async () => {
    const { dataplane, opened, log, clock, errors } = await start();
    await dataplane.sync(PLAN, 'all', []);
    errors.push(new Error('no memory'));
    await dataplane.sync(IPV6, 'all', []);
    expect(opened.map(({ features }) => features.ipv6)).toEqual([false, false]);
    expect(log).toEqual([
      'packet programs cannot be loaded with what Services need: without IPv6 its packets are not served, and direct return is masqueraded; fairlead tries again in ten minutes',
    ]);
    await dataplane.sync(IPV6, 'all', []);
    expect(opened.length).toBe(2);
    let audits = 0;
    dataplane.onLoss?.(() => audits++);
    clock.advance(AGAIN_MS);
    expect(audits, 'without a change').toBe(1);
    await dataplane.audit(IPV6, []);
    expect(opened.map(({ features }) => features.ipv6)).toEqual([false, false, true]);
  });
});
