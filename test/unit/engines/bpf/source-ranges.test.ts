// SPDX-License-Identifier: Apache-2.0
// Source ranges in the tables: before the frontends that need them, after the last one that did, and nobody
// admitted in between who is in neither the old nor the new ones.
import { describe, expect, test } from 'vitest';
import {
  decodeFrontend,
  decodeU32,
  encodeFrontendKey,
  encodeRange,
  encodeRangeKey,
} from '../../../../src/engines/bpf/layout/layout.ts';
import { createTableSync, type TableSync } from '../../../../src/engines/bpf/state/table-sync.ts';
import { element, type Tables } from '../../../../src/engines/bpf/state/tables.ts';
import type { SourceFilter } from '../../../../src/model/types.ts';
import type { Frontend, LocalDetector, Plan } from '../../../../src/plan/types.ts';
import { applyAll } from '../../../support/dataplane/apply-all.ts';
import { applyKilledAt, killableTables } from '../../../support/dataplane/killable-tables.ts';
import { memoryDataplane } from '../../../support/dataplane/memory-dataplane.ts';
import { admits, isPod, rangesIn } from '../../../support/dataplane/source-ranges.ts';
import { createMemoryTables } from '../../../support/tables/memory.ts';
import { backend, clusterIp, planOf, servicePort } from './plans.ts';

const SIZES = { frontends: 64, backends: 64, slotBlocks: 32, services: 16 };
const VIP = '203.0.113.10';
const A = '198.51.100.0/24';
const B = '192.0.2.0/24';
const C = '10.0.0.0/8';
/** Of `sources.nobody`. */
const N = '8.8.0.0/16';

/** Ranges that allow, ranges that deny, or everyone. */
type Sources = readonly string[] | SourceFilter | undefined;

const filterOf = (sources: Sources): SourceFilter | undefined =>
  sources === undefined || 'policy' in sources ? sources : { policy: 'allow', ranges: sources };
const deny = (...ranges: readonly string[]): SourceFilter => ({ policy: 'deny', ranges });

const balancer = (sources: Sources, address = VIP): Frontend => ({
  ...clusterIp(address),
  kind: 'LoadBalancer',
  ...(sources && { isFiltered: true }),
});

const optionsOf = (sources: Sources) => {
  const filter = filterOf(sources);
  return filter === undefined ? {} : { sources: filter };
};

const web = (sources: Sources, name = 'web', hosts = [1, 2]) =>
  servicePort(
    name,
    [clusterIp(name === 'web' ? '10.96.0.10' : '10.96.0.20'), balancer(sources)],
    hosts.map((host) => backend(`10.1.1.${host}`)),
    optionsOf(sources),
  );
const withoutBalancer = (name = 'web') =>
  servicePort(name, [clusterIp('10.96.0.10')], [backend('10.1.1.1')]);

const start = (sizes: Parameters<typeof createMemoryTables>[0] = SIZES) => {
  const tables = createMemoryTables(sizes);
  return { tables, sync: createTableSync(tables, () => Promise.resolve()) };
};

async function applied(sync: TableSync, plan: Plan): Promise<void> {
  expect(applyAll(sync, plan).failed).toEqual([]);
  await sync.releaseRetired();
}

/** undefined: there is no such frontend. */
function isAdmitted(tables: Tables, source: string, address = VIP): boolean | undefined {
  const key = encodeFrontendKey({ family: 'IPv4', address, port: 80, protocol: 'TCP' });
  const ref = tables.frontend.IPv4.get(key);
  if (ref === undefined) return undefined;
  const frontend = decodeFrontend(element(tables.frontendRecord, decodeU32(ref)));
  return admits(tables, frontend, frontend.rules.outside, source);
}

const sources = { A: '198.51.100.9', B: '192.0.2.9', C: '10.9.9.9', nobody: '8.8.8.8' };

describe('ranges', () => {
  test('are those of the service port, and its other frontends have none', async () => {
    const { tables, sync } = start();
    await applied(sync, planOf(web([A, B])));
    expect(rangesIn(tables)).toEqual([`1 ${B}`, `1 ${A}`]);
    expect(isAdmitted(tables, sources.A)).toBe(true);
    expect(isAdmitted(tables, sources.C)).toBe(false);
    expect(isAdmitted(tables, sources.C, '10.96.0.10')).toBe(true);
  });

  test('that deny are exceptions from one that allows all', async () => {
    const { tables, sync } = start();
    await applied(sync, planOf(web(deny(A, B))));
    expect(rangesIn(tables)).toEqual(['1 0.0.0.0/0', `1 ${B}`, `1 ${A}`]);
    expect(isAdmitted(tables, sources.A)).toBe(false);
    expect(isAdmitted(tables, sources.C)).toBe(true);
    await applied(sync, planOf(web([A])));
    expect(rangesIn(tables)).toEqual([`1 ${A}`]);
    expect(isAdmitted(tables, sources.A)).toBe(true);
    expect(isAdmitted(tables, sources.C)).toBe(false);
    expect([...sync.findDrift()].flat()).toEqual([]);
  });

  test('that change their kind within a grace period are those of the last change', async () => {
    const { tables, sync } = start();
    await applied(sync, planOf(web(deny(A))));
    applyAll(sync, planOf(web([B])));
    const releasing = sync.releaseRetired();
    applyAll(sync, planOf(web([A])));
    await releasing;
    await sync.releaseRetired();
    expect(rangesIn(tables)).toEqual([`1 ${A}`]);
    expect(isAdmitted(tables, sources.A)).toBe(true);
  });

  test('an empty list admits no one, and needs no element', async () => {
    const { tables, sync } = start();
    await applied(sync, planOf(web([])));
    expect(rangesIn(tables)).toEqual([]);
    expect(isAdmitted(tables, sources.A)).toBe(false);
  });

  test('go after a grace period, with the last frontend that needs them', async () => {
    const { tables, sync } = start();
    await applied(sync, planOf(web([A, B])));
    applyAll(sync, planOf(web([B])));
    expect(rangesIn(tables)).toEqual([`1 ${B}`, `1 ${A}`]);
    await sync.releaseRetired();
    expect(rangesIn(tables)).toEqual([`1 ${B}`]);
    await applied(sync, planOf(withoutBalancer()));
    expect(rangesIn(tables)).toEqual([]);
    await applied(sync, planOf(web([A])));
    await applied(sync, planOf());
    expect(rangesIn(tables)).toEqual([]);
  });

  test('that come back before the end of the grace period stay', async () => {
    const { tables, sync } = start();
    await applied(sync, planOf(web([A])));
    applyAll(sync, planOf(web([B])));
    applyAll(sync, planOf(web([A])));
    await sync.releaseRetired();
    expect(rangesIn(tables)).toEqual([`1 ${A}`]);
    applyAll(sync, planOf(web([B])));
    const releasing = sync.releaseRetired();
    applyAll(sync, planOf(web([A])));
    await releasing;
    expect(rangesIn(tables)).toEqual([`1 ${A}`]);
    expect([...sync.findDrift()].flat()).toEqual([]);
  });

  test('of two Services with the same frontend in turn never mix', async () => {
    const { tables, sync } = start();
    await applied(sync, planOf(web([A])));
    await applied(sync, planOf(web([B], 'other', [8, 9])));
    expect(isAdmitted(tables, sources.B)).toBe(true);
    expect(isAdmitted(tables, sources.A)).toBe(false);
    expect(rangesIn(tables)).toEqual([`2 ${B}`]);
  });

  test('stay with a port that loses one of its frontends to another Service', async () => {
    const { tables, sync } = start();
    const [first, second] = [balancer([A]), balancer([A], '203.0.113.11')];
    const both = servicePort('web', [first, second], [backend('10.1.1.1')], optionsOf([A]));
    await applied(sync, planOf(both));
    sync.apply(planOf(both, web([B], 'other', [8])), ['default/other']);
    await sync.releaseRetired();
    expect(isAdmitted(tables, sources.A, '203.0.113.11')).toBe(true);
    expect(isAdmitted(tables, sources.B)).toBe(true);
  });
});

const CHANGES: readonly { what: string; before: Plan; after: Plan; always: string[] }[] = [
  { what: 'an address with ranges comes', before: planOf(), after: planOf(web([A])), always: [] },
  {
    what: 'a known Service gets one',
    before: planOf(withoutBalancer()),
    after: planOf(web([A])),
    always: [],
  },
  { what: 'ranges change', before: planOf(web([A, C])), after: planOf(web([B, C])), always: ['C'] },
  {
    what: 'backends and ranges change',
    before: planOf(web([A])),
    after: planOf(web([A, B], 'web', [5, 6])),
    always: ['A'],
  },
  {
    what: 'the first endpoint comes with other ranges',
    before: planOf(web([A], 'web', [])),
    after: planOf(web([B])),
    always: [],
  },
  {
    what: 'the address moves to another Service',
    before: planOf(web([A])),
    after: planOf(web([B], 'other', [8, 9])),
    always: [],
  },
  {
    what: 'it moves to one without endpoints',
    before: planOf(web([A])),
    after: planOf(web([A, B], 'other', [])),
    always: ['A'],
  },
  {
    what: 'ranges begin to deny',
    before: planOf(web([A])),
    after: planOf(web(deny(N, B))),
    always: ['A'],
  },
  {
    what: 'ranges cease to deny',
    before: planOf(web(deny(N, B))),
    after: planOf(web([A])),
    always: ['A'],
  },
  {
    what: 'other ranges are denied',
    before: planOf(web(deny(N, A))),
    after: planOf(web(deny(N, B))),
    always: ['C'],
  },
  {
    what: 'the ranges that were allowed are denied',
    before: planOf(web([A, B])),
    after: planOf(web(deny(A, B, N))),
    always: [],
  },
  {
    what: 'the ranges that were denied are allowed, one by one',
    before: planOf(web(deny(A, N))),
    after: planOf(web([A])),
    always: [],
  },
  { what: 'the Service goes', before: planOf(web([A])), after: planOf(), always: [] },
];

describe.each(CHANGES)('killed at any write: $what', ({ before, after, always }) => {
  test('nobody is admitted who never may be, nobody dropped who always may, and nothing is left', async () => {
    for (let nth = 1, isDone = false; !isDone; nth++) {
      const inner = createMemoryTables(SIZES);
      await applied(
        createTableSync(inner, () => Promise.resolve()),
        before,
      );
      const killable = killableTables(inner);
      const dying = createTableSync(killable.tables, () => Promise.resolve());
      isDone = await applyKilledAt(nth, killable, dying, after);
      expect(isAdmitted(inner, sources.nobody), `killed at write ${nth}`).not.toBe(true);
      for (const name of always) {
        expect(isAdmitted(inner, sources[name as 'A']), `killed at write ${nth}`).toBe(true);
      }
      const next = createTableSync(inner, () => Promise.resolve());
      await applied(next, after);
      const wanted = start();
      await applied(wanted.sync, after);
      const withoutIds = (tables: Tables) => rangesIn(tables).map((text) => text.split(' ')[1]);
      expect(withoutIds(inner)).toEqual(withoutIds(wanted.tables));
      expect(next.ledger.serviceIds.used()).toBe(wanted.sync.ledger.serviceIds.used());
    }
  });
});

describe('a full table', () => {
  const FULL = { ...SIZES, sourceRanges: 3 };

  test('leaves a new Service out as a whole, and says which table', async () => {
    const { tables, sync } = start(FULL);
    const other = servicePort(
      'other',
      [balancer([A], '203.0.113.20')],
      [backend('10.1.1.9')],
      optionsOf([A]),
    );
    const { failed } = applyAll(sync, planOf(other, web([A, B, C])));
    expect(failed).toEqual([
      expect.objectContaining({
        service: 'default/web',
        code: 'MAP_FULL',
        map: 'fl_range',
        reason: expect.stringContaining('--map-size source-ranges'),
      }),
    ]);
    expect(rangesIn(tables)).toEqual([`1 ${A}`]);
    expect(isAdmitted(tables, sources.A)).toBeUndefined();
    expect(tables.serviceName.readAll()).toHaveLength(1);
    expect(sync.ledger.serviceIds.used()).toBe(1);
    expect(sync.ledger.backendIds.used()).toBe(1);
    await applied(sync, planOf());
    await applied(sync, planOf(web([A, B, C])));
    expect(isAdmitted(tables, sources.C)).toBe(true);
  });

  test('keeps ranges that deny where others cannot be put', async () => {
    const { tables, sync } = start(FULL);
    await applied(sync, planOf(web(deny(A))));
    expect(applyAll(sync, planOf(web([A, B, C]))).failed).toMatchObject([{ code: 'MAP_FULL' }]);
    await sync.releaseRetired();
    expect(rangesIn(tables)).toEqual(['1 0.0.0.0/0', `1 ${A}`]);
    expect(isAdmitted(tables, sources.A)).toBe(false);
    expect([...sync.findDrift()].flat()).toEqual([]);
  });

  test('keeps a known Service as it was, also frontends that were to go', async () => {
    const { tables, sync } = start(FULL);
    await applied(sync, planOf(web([A])));
    const ranges = ['10.0.0.0/9', '10.128.0.0/9', B];
    const changed = servicePort(
      'web',
      [balancer(ranges)],
      [backend('10.1.1.9')],
      optionsOf(ranges),
    );
    expect(applyAll(sync, planOf(changed)).failed).toMatchObject([{ code: 'MAP_FULL' }]);
    await sync.releaseRetired();
    expect(rangesIn(tables)).toEqual([`1 ${A}`]);
    expect(isAdmitted(tables, sources.A)).toBe(true);
    expect(isAdmitted(tables, sources.B, '10.96.0.10')).toBe(true);
  });
});

describe('restart and audit', () => {
  test('a new agent adopts ranges and writes nothing', async () => {
    const { tables, sync } = start();
    await applied(sync, planOf(web([A, B])));
    const again = createTableSync(tables, () => Promise.resolve());
    tables.fault = () => 'EIO';
    expect(applyAll(again, planOf(web([A, B])))).toMatchObject({ applied: 0, failed: [] });
    expect(again.ledger.sourceRanges.size).toBe(2);
  });

  test('ranges of an unknown service id are deleted before the id is given to a Service', async () => {
    const { tables } = start();
    tables.sourceRange.put(
      [
        encodeRangeKey({ serviceId: 1, prefix: C }),
        encodeRangeKey({ serviceId: 2 ** 31, prefix: C }),
      ],
      [encodeRange('allowed', 'IPv4'), encodeRange('allowed', 'IPv4')],
    );
    const again = createTableSync(tables, () => Promise.resolve());
    applyAll(again, planOf(web([A])));
    expect(isAdmitted(tables, sources.C)).toBe(false);
    await again.releaseRetired();
    expect(rangesIn(tables)).toEqual([`2 ${A}`]);
    expect(again.ledger.serviceIds.used()).toBe(1);
  });

  test.each([
    [
      'deleted',
      (t: Tables) => void t.sourceRange.delete([encodeRangeKey({ serviceId: 1, prefix: A })]),
      'is missing',
    ],
    [
      'added',
      (t: Tables) =>
        void t.sourceRange.put(
          [encodeRangeKey({ serviceId: 1, prefix: C })],
          [encodeRange('allowed', 'IPv4')],
        ),
      'belongs to no Service',
    ],
    [
      'changed',
      (t: Tables) =>
        void t.sourceRange.put(
          [encodeRangeKey({ serviceId: 1, prefix: A })],
          [encodeRange('pod', 'IPv6')],
        ),
      'differs',
    ],
  ])('audit finds and repairs a range that was %s by hand', async (_, breakIt, drift) => {
    const { tables, sync } = start();
    await applied(sync, planOf(web([A])));
    breakIt(tables);
    expect([...sync.findDrift()].flat().map(({ text }) => text)).toEqual([
      expect.stringContaining(drift),
    ]);
    await applied(sync, planOf(web([A])));
    expect(rangesIn(tables)).toEqual([`1 ${A}`]);
    expect(isAdmitted(tables, sources.A)).toBe(true);
    expect([...sync.findDrift()].flat()).toEqual([]);
  });
});

describe('the local detector', () => {
  const detecting = (IPv4: LocalDetector | undefined, IPv6?: LocalDetector): Plan => ({
    ...planOf(web([A])),
    detector: { IPv4, IPv6 },
  });
  const cidr = (text: string): LocalDetector => ({ kind: 'cidr', cidr: text });

  test('its CIDRs are there before the first frontend, and follow the plan', async () => {
    const { tables } = start();
    const dataplane = memoryDataplane(tables);
    const sync = async (plan: Plan): Promise<void> => {
      expect((await dataplane.sync(plan, 'all', [])).failed).toEqual([]);
    };
    await sync(detecting(cidr('10.1.0.0/16'), cidr('2001:db8:1::/48')));
    const first = rangesIn(tables).filter((text) => text.startsWith('0 '));
    expect(first).toEqual(['0 10.1.0.0/16', '0 2001:db8:1::/48']);
    expect(isPod(tables, '10.1.2.3')).toBe(true);
    await sync(detecting({ kind: 'interface-prefix', prefix: 'veth' }));
    await expect.poll(() => isPod(tables, '10.1.2.3')).toBe(false);
    dataplane.close();
  });

  test('one that does not fit is reported and retried', () => {
    const { tables, sync } = start();
    tables.fault = (table) => (table === 'fl_range' ? 'ENOMEM' : undefined);
    expect(sync.applyDetector(detecting(cidr('10.1.0.0/16')))).toMatchObject([
      { text: 'range of pods 10.1.0.0/16', code: 'WRITE_FAILED', map: 'fl_range' },
    ]);
    tables.fault = () => undefined;
    expect(sync.applyDetector(detecting(cidr('10.1.0.0/16')))).toEqual([]);
    expect(isPod(tables, '10.1.2.3')).toBe(true);
  });
});
