// SPDX-License-Identifier: Apache-2.0
// Who serves a frontend is read from all engines, before the first sync decides who gets it.
import { afterEach, expect, test } from 'vitest';
import { type Agent, createAgent } from '../../../src/agent/agent.ts';
import { readIncumbents } from '../../../src/agent/incumbents.ts';
import type { ComposedDataplane, HeldFrontend, Synced } from '../../../src/engines/dataplane.ts';
import { othersOf } from '../../../src/instance/hand-over/hand-overs.ts';
import { createPlanner } from '../../../src/plan/planner.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { until } from '../../support/until.ts';
import { ready, SETTINGS, service, slice } from '../plan/support.ts';

const held = (address: string, name: string): HeldFrontend => ({
  dataplane: 'bpf',
  id: { family: 'IPv4', address, port: 80, protocol: 'TCP' },
  service: `default/${name}`,
});
const [KEY_1, KEY_2, KEY_3] = [1, 2, 3].map((n) => `10.96.0.${n}:80/TCP`) as [
  string,
  string,
  string,
];

test('of all that can be read; of two that know a frontend the last one counts', async () => {
  const lines: string[] = [];
  const log = { warn: ({ reason }: { reason: string }) => void lines.push(reason) };
  const incumbentOf = await readIncumbents(
    [
      async () => [held('10.96.0.1', 'a'), held('10.96.0.2', 'a')],
      () => Promise.reject(new Error('EACCES')),
      async () => [held('10.96.0.2', 'b')],
    ],
    log as never,
  );
  expect([KEY_1, KEY_2, KEY_3].map(incumbentOf)).toEqual(['default/a', 'default/b', undefined]);
  expect(lines).toEqual(['EACCES']);
});

test('an engine that this agent runs is no other one', () => {
  const engines = [{ engine: 'bpf' }, { engine: 'iptables' }] as never;
  const names = (...running: readonly string[]) =>
    othersOf(engines, {
      dataplanes: running.map((dataplane) => ({ dataplane })) as never,
    }).map(({ engine }) => engine);
  expect(names('bpf')).toEqual(['iptables']);
  expect(names('iptables')).toEqual(['bpf']);
  expect(names('bpf', 'iptables')).toEqual([]);
});

let agent: Agent | undefined;
afterEach(() => agent?.stop());

/** Whose plan has the frontend that both ask for, in the first sync. */
async function ownerBy(own: readonly HeldFrontend[], others: readonly HeldFrontend[]) {
  const plans: Plan[] = [];
  const dataplane = {
    capabilities: { dataplane: 'bpf' },
    onRoom: () => undefined,
    held: async () => own,
    sync: async (plan: Plan): Promise<Synced> => {
      plans.push(plan);
      const report = { applied: 0, failed: [], elapsedMs: 0 };
      return { report, services: [], changes: new Map(), isFull: true };
    },
  } as unknown as ComposedDataplane;
  agent = createAgent({
    ...{ planner: createPlanner(SETTINGS), dataplane, auditIntervalMs: 1e8 },
    addresses: { current: () => [], listen: () => undefined } as never,
    log: { info: () => undefined, warn: () => undefined, debug: () => undefined } as never,
    heldByOthers: [async () => others],
  });
  const ports = { ports: [{ name: 'http', port: 80 }] };
  for (const name of ['a', 'b'])
    agent.accept([service(name, 1, ports), slice(name, [ready('10.1.1.5')])]);
  agent.sourceSynced();
  await until(() => plans.length > 0, 'the first sync');
  const owners = [...(plans[0]?.services ?? [])].filter(([, { ports }]) =>
    ports.some(({ frontends }) => frontends.length > 0),
  );
  return owners.map(([key]) => key);
}

test('who serves by the other engine keeps its frontend, unless this one serves it for another', async () => {
  const [A, B] = [held('10.96.0.1', 'a'), held('10.96.0.1', 'b')];
  expect(await ownerBy([], [])).toEqual(['default/a']);
  expect(await ownerBy([], [B])).toEqual(['default/b']);
  expect(await ownerBy([B], [])).toEqual(['default/b']);
  expect(await ownerBy([A], [B])).toEqual(['default/a']);
});
