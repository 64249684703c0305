// SPDX-License-Identifier: Apache-2.0
// What the iptables dataplane asks of iptables: as little as possible, and everything again after a failure.
import { expect, test } from 'vitest';
import type { Plan } from '../../../../../src/plan/types.ts';
import { memoryIptables } from '../../../../support/iptables/memory/dataplane.ts';
import { memoryTools } from '../../../../support/iptables/memory/tools.ts';
import { backend, clusterIp, planOf, servicePort } from '../../bpf/plans.ts';

const web = (...backends: readonly string[]) =>
  servicePort(
    'web',
    [clusterIp('10.96.0.10')],
    backends.map((address) => backend(address)),
  );
const DNS = servicePort('dns', [clusterIp('10.96.0.53', 53)], [backend('10.1.1.53', 53)]);

/** The plan with one Service as another plan has it, all others identical. */
const withService = (plan: Plan, key: string, other: Plan): Plan => ({
  ...plan,
  services: new Map([...plan.services, [key, other.services.get(key)!]]),
});

const PLAN = planOf(web('10.1.1.5', '10.1.1.6'), DNS);
const FAILURE = { reason: 'iptables-nft-restore failed at line 3, `-A x`: no', line: '-A x' };

test('a sync without a change asks for nothing', async () => {
  const { dataplane, IPv4 } = memoryIptables();
  await dataplane.sync(PLAN, 'all', []);
  expect([IPv4.saves(), IPv4.inputs().length]).toEqual([1, 1]);
  expect(await dataplane.sync(PLAN, ['default/web'], [])).toMatchObject({ applied: 0, failed: [] });
  expect([IPv4.saves(), IPv4.inputs()]).toEqual([0, []]);
});

test('the first rules translate before they refuse; later ones refuse before they cease to translate', async () => {
  const { dataplane, IPv4 } = memoryIptables();
  const tables = (): readonly string[] =>
    IPv4.inputs().flatMap((input) => input.match(/^\*\w+$/gm) ?? []);
  await dataplane.sync(PLAN, 'all', []);
  expect(tables()).toEqual(['*nat', '*mangle', '*filter']);
  await dataplane.sync(withService(PLAN, 'default/web', planOf(web())), ['default/web'], []);
  expect(tables()).toEqual(['*filter', '*nat']);
});

test('of a changed Service only what differs is written, without reading', async () => {
  const { dataplane, IPv4, IPv6 } = memoryIptables();
  await dataplane.sync(PLAN, 'all', []);
  const before = [IPv4.saves(), IPv4.inputs(), IPv6.saves(), IPv6.inputs()];
  expect(before.length).toBe(4);
  const next = withService(PLAN, 'default/web', planOf(web('10.1.1.6', '10.1.1.7')));
  const { applied } = await dataplane.sync(next, ['default/web'], []);
  const [input = ''] = IPv4.inputs();
  expect(input.split('\n').map((line) => line.replaceAll(/[A-Z2-7]{16}/g, 'x'))).toEqual([
    '*nat',
    ':KUBE-SVC-x - [0:0]',
    ':KUBE-SEP-x - [0:0]',
    ':KUBE-SEP-x - [0:0]',
    '-A KUBE-SVC-x -m comment --comment "default/web:http -> 10.1.1.6:8080" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-x',
    '-A KUBE-SVC-x -m comment --comment "default/web:http -> 10.1.1.7:8080" -j KUBE-SEP-x',
    '-A KUBE-SEP-x -s 10.1.1.7/32 -m comment --comment "default/web:http" -j KUBE-MARK-MASQ',
    '-A KUBE-SEP-x -p tcp -m comment --comment "default/web:http" -m tcp -j DNAT --to-destination 10.1.1.7:8080',
    '-X KUBE-SEP-x',
    'COMMIT',
    '',
  ]);
  expect([applied, IPv4.saves(), IPv6.saves(), IPv6.inputs()]).toEqual([3, 0, 0, []]);
});

test('a failed restore is told with its reason, and everything is read and written again', async () => {
  const { dataplane, IPv4 } = memoryIptables();
  await dataplane.sync(PLAN, 'all', []);
  const before = IPv4.text();
  IPv4.saves();
  IPv4.failure = FAILURE;
  const next = withService(PLAN, 'default/web', planOf(web('10.1.1.7')));
  await expect(dataplane.sync(next, ['default/web'], [])).rejects.toThrow(FAILURE.reason);
  expect(IPv4.text()).toBe(before);
  IPv4.failure = undefined;
  IPv4.restoreAsOther(
    '*nat\n-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES\nCOMMIT\n',
  );
  await dataplane.sync(next, [], []);
  expect(IPv4.saves()).toBe(1);
  expect(IPv4.text()).toContain('10.1.1.7:8080');
  expect(IPv4.text()).toContain('-A PREROUTING -m comment');
});

test('a Service of which a rule is refused keeps what it had, and all others are written', async () => {
  const { dataplane, IPv4 } = memoryIptables();
  await dataplane.sync(PLAN, 'all', []);
  IPv4.refuse('10.1.1.7:8080');
  const changed = withService(PLAN, 'default/web', planOf(web('10.1.1.7')));
  const dns = servicePort('dns', [clusterIp('10.96.0.53', 53)], [backend('10.1.1.54', 53)]);
  const next = withService(changed, 'default/dns', planOf(dns));
  const { failed } = await dataplane.sync(next, ['default/web', 'default/dns'], []);
  expect(failed).toMatchObject([
    { service: 'default/web', code: 'WRITE_FAILED', reason: 'refused' },
  ]);
  expect(IPv4.text()).toContain('10.1.1.5:8080');
  expect(IPv4.text()).not.toContain('10.1.1.7:8080');
  expect(IPv4.text()).toContain('10.1.1.54:53');
  // Not retried with every change of another one.
  IPv4.inputs();
  await dataplane.sync(withService(next, 'default/dns', planOf(DNS)), ['default/dns'], []);
  expect(IPv4.inputs().length).toBe(1);
  IPv4.refuse(undefined);
  expect((await dataplane.sync(next, ['default/web'], [])).failed).toEqual([]);
  expect(IPv4.text()).toContain('10.1.1.7:8080');
});

test('a new Service of which a rule is refused is not written at all', async () => {
  const { dataplane, IPv4 } = memoryIptables();
  IPv4.refuse('10.1.1.6:8080');
  const { failed } = await dataplane.sync(PLAN, 'all', []);
  expect(failed.map(({ service }) => service)).toEqual(['default/web']);
  expect(IPv4.text()).not.toContain('10.96.0.10/32');
  expect(IPv4.text()).toContain('10.96.0.53/32');
});

test.each(['all', 'audit'] as const)(
  'a retry (%s) that is refused again writes nothing of the Service, not for a moment',
  async (extent) => {
    const { dataplane, IPv4 } = memoryIptables();
    IPv4.refuse('10.1.1.6:8080');
    await dataplane.sync(PLAN, 'all', []);
    const seen: string[] = [];
    const { restore } = IPv4;
    IPv4.restore = async (input) => {
      const failure = await restore.call(IPv4, input);
      seen.push(IPv4.text());
      return failure;
    };
    if (extent === 'all') await dataplane.sync(PLAN, 'all', []);
    else await dataplane.audit(PLAN, []);
    expect(seen.length).toBeGreaterThan(0);
    expect(seen.filter((text) => text.includes('10.96.0.10/32'))).toEqual([]);
  },
);

test('one family that fails does not keep the other from being written', async () => {
  const { dataplane, IPv4, IPv6 } = memoryIptables();
  IPv4.failure = FAILURE;
  await expect(dataplane.sync(PLAN, 'all', [])).rejects.toThrow(FAILURE.reason);
  expect(IPv6.text()).toContain(':KUBE-PROXY-CANARY');
});

test('what a previous kube-proxy has left is adopted in place', async () => {
  const { dataplane, IPv4 } = memoryIptables();
  await dataplane.sync(PLAN, 'all', []);
  const whole = IPv4.text();
  const stale = 'KUBE-SVC-AAAAAAAAAAAAAAAA';
  IPv4.restoreAsOther(
    `*nat\n:${stale} - [0:0]\n:CNI-1 - [0:0]\n-A KUBE-SERVICES -d 10.96.0.99/32 -j ${stale}\n-A CNI-1 -j ACCEPT\nCOMMIT\n`,
  );
  const next = memoryIptables({}, { IPv4, IPv6: memoryIptables().IPv6 });
  await next.dataplane.sync(PLAN, 'all', []);
  expect(IPv4.text()).toBe(
    whole
      .replace(/(\*nat\n(?::.*\n)*)/, '$1:CNI-1 - [0:0]\n')
      .replace(/(\*nat\n(?:.*\n)*?)COMMIT/, '$1-A CNI-1 -j ACCEPT\nCOMMIT'),
  );
});

test('an audit reports what others have changed, not what the plan has changed meanwhile', async () => {
  const { dataplane, IPv4 } = memoryIptables();
  await dataplane.sync(PLAN, 'all', []);
  IPv4.restoreAsOther(
    '*nat\n-A KUBE-SERVICES -j ACCEPT\n-D OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES\nCOMMIT\n*filter\n:KUBE-FORWARD - [0:0]\nCOMMIT\n',
  );
  const next = withService(PLAN, 'default/web', planOf(web('10.1.1.7')));
  const { drift, report } = await dataplane.audit(next, []);
  expect(drift.map(({ text }) => text)).toEqual([
    'IPv4 filter KUBE-FORWARD: missing `-m conntrack --ctstate INVALID -j DROP` and 2 more',
    'IPv4 nat KUBE-SERVICES: has `-j ACCEPT`',
    'IPv4 nat OUTPUT: missing `-m comment --comment "kubernetes service portals" -j KUBE-SERVICES`',
  ]);
  expect(report.applied).toBeGreaterThan(drift.length);
  expect(IPv4.text()).toContain('10.1.1.7:8080');
  expect((await dataplane.audit(next, [])).drift).toEqual([]);
});

test('the next sync begins no sooner than the minimum sync period after one that has written', async () => {
  let nowMs = 5_000;
  const waits: number[] = [];
  const clock = {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    random: () => 0,
    after(delayMs: number, action: () => void) {
      if (delayMs === 30_000) return () => undefined;
      waits.push(delayMs);
      nowMs += delayMs;
      queueMicrotask(action);
      return () => undefined;
    },
  };
  const { dataplane } = memoryIptables({ clock, minSyncPeriodMs: 1_000 });
  await dataplane.sync(PLAN, 'all', []);
  nowMs += 300;
  await dataplane.sync(PLAN, ['default/web'], []);
  await dataplane.sync(planOf(DNS), ['default/web'], []);
  expect(waits).toEqual([700]);
});

/** A dataplane that looks after its rules when it is told to. */
function looking({ hasGeneration = false } = {}) {
  let look: () => void = () => undefined;
  const state = { nowMs: 0, losses: 0, hasSlowReads: false };
  const clock = {
    nowMs: () => 0,
    monotonicMs: () => {
      if (state.hasSlowReads) state.nowMs += 1000;
      return state.nowMs;
    },
    random: () => 0,
    after(_: number, action: () => void) {
      look = action;
      return () => undefined;
    },
  };
  const tools = { IPv4: memoryTools(), IPv6: memoryTools() };
  const { IPv4, IPv6 } = tools;
  const generation = (): number | undefined =>
    hasGeneration ? IPv4.commits() + IPv6.commits() : undefined;
  const { dataplane } = memoryIptables({ clock, generation }, tools);
  dataplane.onLoss?.(() => state.losses++);
  const looked = async (): Promise<number> => {
    look();
    await dataplane.held();
    await new Promise(setImmediate);
    return state.losses;
  };
  return { dataplane, IPv4, IPv6, looked, state };
}

test('flushed rules are missed, in any table', async () => {
  const { dataplane, IPv4, IPv6, looked } = looking();
  expect(await looked()).toBe(0);
  await dataplane.sync(PLAN, 'all', []);
  expect(await looked()).toBe(0);
  IPv6.restoreAsOther('*nat\n:KUBE-PROXY-CANARY - [0:0]\n-X KUBE-PROXY-CANARY\nCOMMIT\n');
  expect(await looked()).toBe(1);
  await dataplane.audit(PLAN, []);
  IPv4.flush();
  expect(await looked()).toBe(2);
  expect((await dataplane.audit(PLAN, [])).drift.length).toBeGreaterThan(10);
});

const DELETED =
  '*nat\n-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES\nCOMMIT\n';
const OF_OTHERS = '*nat\n:CNI - [0:0]\n-I PREROUTING -j CNI\nCOMMIT\n';

test('what an audit finds and cannot repair is reported by the one that can', async () => {
  const { dataplane, IPv4, IPv6 } = memoryIptables();
  await dataplane.sync(PLAN, 'all', []);
  for (const rules of [IPv4, IPv6]) rules.restoreAsOther(DELETED);
  IPv4.failure = FAILURE;
  await expect(dataplane.audit(PLAN, [])).rejects.toThrow(FAILURE.reason);
  IPv4.failure = undefined;
  expect((await dataplane.audit(PLAN, [])).drift.map(({ text }) => text)).toEqual([
    expect.stringContaining('IPv4 nat PREROUTING: missing'),
    expect.stringContaining('IPv6 nat PREROUTING: missing'),
  ]);
  expect((await dataplane.audit(PLAN, [])).drift).toEqual([]);
});

test('while a rule of a Service is refused, what others have changed is reported all the same', async () => {
  const { dataplane, IPv4 } = memoryIptables();
  await dataplane.sync(PLAN, 'all', []);
  IPv4.refuse('10.1.1.7:8080');
  await dataplane.sync(MOVED, ['default/web'], []);
  IPv4.restoreAsOther(DELETED);
  const { drift, report } = await dataplane.audit(MOVED, []);
  expect(report.failed.map(({ service }) => service)).toEqual(['default/web']);
  expect(drift.map(({ text }) => text)).toEqual([
    expect.stringContaining('IPv4 nat PREROUTING: missing'),
  ]);
});

test('a rule that somebody deletes is missed, too, and what others write is theirs', async () => {
  const { dataplane, IPv4, looked } = looking();
  await dataplane.sync(PLAN, 'all', []);
  IPv4.restoreAsOther(OF_OTHERS);
  expect(await looked()).toBe(0);
  IPv4.restoreAsOther(DELETED);
  expect(await looked()).toBe(1);
  expect((await dataplane.audit(PLAN, [])).drift.map(({ text }) => text)).toEqual([
    expect.stringContaining('IPv4 nat PREROUTING: missing'),
  ]);
  expect(await looked()).toBe(1);
});

/** Of the look that follows; what the test itself reads does not count. */
async function savesOf({ IPv4, looked }: ReturnType<typeof looking>): Promise<number> {
  IPv4.saves();
  await looked();
  return IPv4.saves() - 1;
}

const MOVED = withService(PLAN, 'default/web', planOf(web('10.1.1.7')));

test('rules are read only after somebody else has written any', async () => {
  const rules = looking({ hasGeneration: true });
  const { dataplane, IPv4 } = rules;
  await dataplane.sync(PLAN, 'all', []);
  expect(await savesOf(rules)).toBe(0);
  IPv4.restoreAsOther(OF_OTHERS);
  expect(await savesOf(rules)).toBe(1);
  expect(await savesOf(rules)).toBe(0);
  await dataplane.sync(MOVED, ['default/web'], []);
  expect(await savesOf(rules)).toBe(0);
});

const WRITTEN_BY_OTHERS: readonly {
  readonly when: string;
  readonly write: (rules: ReturnType<typeof looking>) => Promise<unknown>;
}[] = [
  {
    when: 'before a sync, which does not read',
    write: ({ dataplane, IPv4 }) => {
      IPv4.restoreAsOther(DELETED);
      return dataplane.sync(MOVED, ['default/web'], []);
    },
  },
  {
    when: 'while a sync writes',
    write: ({ dataplane, IPv4 }) => {
      const { restore } = IPv4;
      IPv4.restore = (input) => {
        IPv4.restoreAsOther(DELETED);
        return restore.call(IPv4, input);
      };
      return dataplane.sync(MOVED, ['default/web'], []);
    },
  },
  {
    when: 'after an audit has read and before it has written',
    write: ({ dataplane, IPv4 }) => {
      const { save } = IPv4;
      IPv4.save = async () => {
        const text = await save.call(IPv4);
        IPv4.restoreAsOther(DELETED);
        return text;
      };
      return dataplane.audit(MOVED, []);
    },
  },
];

test.each(WRITTEN_BY_OTHERS)('what others write $when is missed', async ({ write }) => {
  const rules = looking({ hasGeneration: true });
  const { save, restore } = rules.IPv4;
  await rules.dataplane.sync(PLAN, 'all', []);
  await write(rules);
  Object.assign(rules.IPv4, { save, restore });
  const losses = await rules.looked();
  const { drift } = await rules.dataplane.audit(MOVED, []);
  expect([losses, drift.length > 0]).toEqual([1, true]);
});

test('where reading takes long, a flush is still noticed in each period, and an edit later', async () => {
  const { dataplane, IPv4, looked, state } = looking({ hasGeneration: true });
  await dataplane.sync(PLAN, 'all', []);
  IPv4.restoreAsOther(OF_OTHERS);
  state.hasSlowReads = true;
  expect(await looked()).toBe(0);
  state.hasSlowReads = false;
  IPv4.restoreAsOther(DELETED);
  expect(await looked()).toBe(0);
  state.nowMs += 60_000;
  expect(await looked()).toBe(1);
  IPv4.flush();
  expect(await looked()).toBe(2);
});

test('close ends a sync that waits, and nothing is written afterwards', async () => {
  const { dataplane, IPv4 } = memoryIptables({ minSyncPeriodMs: 60_000 });
  await dataplane.sync(PLAN, 'all', []);
  IPv4.inputs();
  const waiting = dataplane.sync(planOf(DNS), ['default/web'], []);
  dataplane.close();
  await expect(waiting).rejects.toThrow('closed');
  expect(IPv4.inputs()).toEqual([]);
});
