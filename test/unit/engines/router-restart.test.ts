// SPDX-License-Identifier: Apache-2.0
// Several dataplanes over tables that an earlier agent has filled: each adopts what it has, and what another one
// is to serve now moves without a gap.
import { expect, test } from 'vitest';
import { decodeFrontendKey } from '../../../src/engines/bpf/layout/layout.ts';
import { BPF, type Capabilities } from '../../../src/engines/capabilities.ts';
import type { ComposedDataplane, Dataplane } from '../../../src/engines/dataplane.ts';
import { frontendText } from '../../../src/engines/entry.ts';
import { createRouter } from '../../../src/engines/router/router.ts';
import type { Plan, ServicePortPlan } from '../../../src/plan/types.ts';
import { memoryDataplane, memoryTables } from '../../support/dataplane/memory-dataplane.ts';
import type { MemoryTables } from '../../support/tables/memory.ts';
import { backend, clusterIp, planOf, servicePort } from './bpf/plans.ts';
import { withCapabilities } from './support.ts';

/** Serves sockets alone, as BPF does, so that each frontend has one dataplane. */
const WITH_RANGES = { ...BPF.serves.pod!, hasSourceRanges: true };
const RULES: Capabilities = {
  ...BPF,
  dataplane: 'rules',
  serves: { pod: WITH_RANGES, host: WITH_RANGES, outside: undefined },
};

/** What a node keeps while agents come and go. */
interface Node {
  readonly bpf: MemoryTables;
  readonly rules: MemoryTables;
  /** Each change of a frontend's key: `rules +203.0.113.1:80/TCP`. */
  readonly journal: string[];
}

function node(): Node {
  const journal: string[] = [];
  const watched = (name: string): MemoryTables => {
    const tables = memoryTables();
    const table = tables.frontend.IPv4;
    const { put, delete: remove } = table;
    const note = (sign: string, keys: readonly Uint8Array[]): void => {
      for (const key of keys) {
        journal.push(`${name} ${sign}${frontendText(decodeFrontendKey(key, 'IPv4'))}`);
      }
    };
    Object.assign(table, {
      put: (keys: readonly Uint8Array[], values: readonly Uint8Array[]) => {
        const refused = put(keys, values);
        if (refused.length === 0) note('+', keys);
        return refused;
      },
      delete: (keys: readonly Uint8Array[]) => {
        note('-', keys);
        return remove(keys);
      },
    });
    return tables;
  };
  return { bpf: watched('bpf'), rules: watched('rules'), journal };
}

/** A new agent: it knows nothing but what the tables hold. */
const agentOn = ({ bpf, rules }: Node): ComposedDataplane =>
  createRouter([memoryDataplane(bpf), withCapabilities(memoryDataplane(rules), RULES)]);

/** Begins to write a turn of the event loop after it was asked to. */
const later = (dataplane: Dataplane): Dataplane => ({
  ...withCapabilities(dataplane, dataplane.capabilities),
  async sync(plan, changed, addresses) {
    await new Promise(setImmediate);
    return dataplane.sync(plan, changed, addresses);
  },
});

const lateAgentOn = ({ bpf, rules }: Node): ComposedDataplane =>
  createRouter([
    later(memoryDataplane(bpf)),
    later(withCapabilities(memoryDataplane(rules), RULES)),
  ]);

const external = (address: string) => ({ ...clusterIp(address), kind: 'ExternalIP' as const });
const byBpf = (name: string, address: string): ServicePortPlan =>
  servicePort(name, [external(address)], [backend('10.1.1.2')]);
/** The source ranges decide that BPF cannot serve it. */
const byRules = (name: string, address: string): ServicePortPlan =>
  servicePort(name, [{ ...external(address), isFiltered: true }], [backend('10.1.1.2')]);

const WEB = '203.0.113.1';
const sync = (agent: ComposedDataplane, plan: Plan) => agent.sync(plan, []);
const held = async (agent: ComposedDataplane): Promise<readonly string[]> =>
  (await agent.snapshot()).frontends.map(({ id, dataplane }) => `${dataplane} ${frontendText(id)}`);

test('the same plan writes nothing', async () => {
  const tables = node();
  const plan = planOf(byRules('web', WEB), byBpf('open', '203.0.113.2'));
  await sync(agentOn(tables), plan);
  tables.journal.length = 0;
  const { report } = await sync(agentOn(tables), plan);
  expect([report.applied, report.failed, tables.journal]).toEqual([0, [], []]);
});

test.each([
  ['bpf', 'rules', byBpf, byRules],
  ['rules', 'bpf', byRules, byBpf],
] as const)(
  'a frontend of %s that is for %s now is there before it is gone here',
  async (...row) => {
    const [from, to, before, after] = row;
    const tables = node();
    await sync(agentOn(tables), planOf(before('web', WEB)));
    const agent = agentOn(tables);
    await sync(agent, planOf(after('web', WEB)));
    expect(tables.journal).toEqual([
      `${from} +${WEB}:80/TCP`,
      `${to} +${WEB}:80/TCP`,
      `${from} -${WEB}:80/TCP`,
    ]);
    expect(await held(agent)).toEqual([`${to} ${WEB}:80/TCP`]);
  },
);

test('the same with an audit before the first sync', async () => {
  const tables = node();
  await sync(agentOn(tables), planOf(byBpf('web', WEB)));
  await agentOn(tables).audit(planOf(byRules('web', WEB)), []);
  expect(tables.journal.slice(1)).toEqual([`rules +${WEB}:80/TCP`, `bpf -${WEB}:80/TCP`]);
});

test('it stays where it was until the new dataplane can take it', async () => {
  const tables = node();
  await sync(agentOn(tables), planOf(byBpf('web', WEB)));
  const agent = agentOn(tables);
  tables.rules.fault = () => 'ENOMEM';
  const plan = planOf(byRules('web', WEB));
  const { report } = await sync(agent, plan);
  expect([report.failed.length, await held(agent)]).toEqual([1, [`bpf ${WEB}:80/TCP`]]);
  tables.rules.fault = () => undefined;
  await agent.sync(plan, [], true);
  expect(await held(agent)).toEqual([`rules ${WEB}:80/TCP`]);
});

test('an agent that died in the middle of a move leaves it twice: the next one removes it', async () => {
  const tables = node();
  await sync(agentOn(tables), planOf(byBpf('web', WEB)));
  await memoryDataplane(tables.rules).sync(planOf(byRules('web', WEB)), 'all', []);
  const agent = agentOn(tables);
  await sync(agent, planOf(byRules('web', WEB)));
  expect(await held(agent)).toEqual([`rules ${WEB}:80/TCP`]);
});

test('a Service that is gone is removed from each', async () => {
  const tables = node();
  await sync(agentOn(tables), planOf(byBpf('web', WEB), byRules('shop', '203.0.113.2')));
  const agent = agentOn(tables);
  await sync(agent, planOf());
  expect(await held(agent)).toEqual([]);
});

test.each([true, false])(
  'another Service has it, and another dataplane; restarted: %s',
  async (isNew) => {
    const tables = node();
    const first = agentOn(tables);
    await sync(first, planOf(byBpf('web', WEB)));
    const agent = isNew ? agentOn(tables) : first;
    const plan = planOf(byRules('shop', WEB));
    await sync(agent, plan);
    expect(tables.journal.slice(1)).toEqual([`rules +${WEB}:80/TCP`, `bpf -${WEB}:80/TCP`]);
  },
);

test.each(['fails', 'throws'])(
  'what the new dataplane could not take stays while other Services are synced: it %s',
  async (how) => {
    const tables = node();
    const agent = agentOn(tables);
    await sync(agent, planOf(byBpf('web', WEB)));
    tables.rules.fault = () => {
      if (how === 'throws') throw new Error('killed');
      return 'ENOMEM';
    };
    const moved = planOf(byRules('web', WEB));
    await sync(agent, moved).catch(() => undefined);
    const more = planOf(byBpf('open', '203.0.113.2')).services;
    const plan = { ...moved, services: new Map([...moved.services, ...more]) };
    if (how === 'fails') {
      tables.rules.fault = () => undefined;
      await sync(agent, plan);
      expect(await held(agent)).toEqual([`bpf ${WEB}:80/TCP`, 'bpf 203.0.113.2:80/TCP']);
    } else {
      await sync(agent, plan).catch(() => undefined);
      expect(await held(agent)).toContain(`bpf ${WEB}:80/TCP`);
      tables.rules.fault = () => undefined;
    }
    await agent.sync(plan, [], true);
    expect(await held(agent)).toEqual(['bpf 203.0.113.2:80/TCP', `rules ${WEB}:80/TCP`]);
  },
);

test.each([
  ['bpf', 'rules', byBpf, byRules],
  ['rules', 'bpf', byRules, byBpf],
] as const)('a Service of %s that is for %s in mid-sync', async (...row) => {
  const [from, to, before, after] = row;
  const tables = node();
  const agent = lateAgentOn(tables);
  await sync(agent, planOf(before('web', WEB)));
  const syncing = sync(agent, planOf(before('web', WEB)));
  const nextSyncing = sync(agent, planOf(after('web', WEB)));
  await syncing;
  expect(tables.journal).toEqual([`${from} +${WEB}:80/TCP`]);
  await nextSyncing;
  expect(tables.journal.slice(1)).toEqual([`${to} +${WEB}:80/TCP`, `${from} -${WEB}:80/TCP`]);
});

test('a Service that is deleted in mid-sync is removed by the next one', async () => {
  const tables = node();
  const agent = lateAgentOn(tables);
  const syncing = sync(agent, planOf(byRules('web', WEB)));
  const removing = sync(agent, planOf());
  await syncing;
  expect(tables.journal).toEqual([`rules +${WEB}:80/TCP`]);
  await removing;
  expect(await held(agent)).toEqual([]);
});

test('what a dataplane could not take is not asked of it once another one serves it again', async () => {
  const tables = node();
  const agent = agentOn(tables);
  await sync(agent, planOf(byBpf('web', WEB)));
  tables.rules.fault = () => 'ENOMEM';
  await sync(agent, planOf(byRules('web', WEB)));
  const { report } = await sync(agent, planOf(byBpf('web', WEB)));
  expect([report.failed, await held(agent)]).toEqual([[], [`bpf ${WEB}:80/TCP`]]);
});

test('after an error what is held is read again', async () => {
  const tables = node();
  const agent = agentOn(tables);
  await sync(agent, planOf(byBpf('web', WEB)));
  tables.rules.fault = () => {
    throw new Error('killed');
  };
  await expect(sync(agent, planOf(byRules('web', WEB)))).rejects.toThrow('killed');
  tables.rules.fault = () => undefined;
  await sync(agent, planOf(byRules('web', WEB)));
  expect(tables.journal.slice(1)).toEqual([`rules +${WEB}:80/TCP`, `bpf -${WEB}:80/TCP`]);
});
