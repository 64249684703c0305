// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { backendViews, frontendViews } from '../../../src/engines/bpf/inspect/view.ts';
import { adopt } from '../../../src/engines/bpf/state/adopt.ts';
import { createTableSync } from '../../../src/engines/bpf/state/table-sync.ts';
import { BPF } from '../../../src/engines/capabilities.ts';
import { problemText } from '../../../src/model/problem.ts';
import { backendRows } from '../../../src/observe/backend-rows.ts';
import { sortedInSteps } from '../../../src/observe/rows.ts';
import { serviceRows } from '../../../src/observe/service-rows.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { applyAll } from '../../support/dataplane/apply-all.ts';
import { createMemoryTables } from '../../support/tables/memory.ts';
import { backend, clusterIp, localNodePort, planOf, servicePort } from '../engines/bpf/plans.ts';

function kernelAfter(...plans: readonly Plan[]) {
  const tables = createMemoryTables({ frontends: 64, backends: 64, slotBlocks: 64, services: 64 });
  const dataplane = createTableSync(tables, () => Promise.resolve());
  for (const plan of plans) applyAll(dataplane, plan);
  return adopt(tables).ledger;
}

const web = (...addresses: string[]) =>
  servicePort(
    'web',
    [clusterIp('10.96.0.10')],
    addresses.map((a) => backend(a)),
    { serving: [backend('10.1.1.1')] },
  );

const heavy = { ...backend('10.1.1.1'), weight: 3 };
const weighted = servicePort('web', [clusterIp('10.96.0.10')], [heavy, backend('10.1.1.2')], {
  serving: [heavy, backend('10.1.1.2'), { ...backend('10.1.1.3'), weight: 0 }],
  algorithm: 'weighted-random',
});

describe('services: the plan beside the kernel', () => {
  const rows: readonly {
    name: string;
    plan: Plan | undefined;
    kernel: readonly Plan[];
    expected: object;
  }[] = [
    {
      name: 'both agree',
      plan: planOf(web('10.1.1.1')),
      kernel: [planOf(web('10.1.1.1'))],
      expected: {
        kernelState: 'ok',
        desired: ['10.1.1.1:8080'],
        kernel: ['10.1.1.1:8080'],
        kind: 'ClusterIP',
        port: 'http',
      },
    },
    {
      name: 'with weights, also of those that get no connections',
      plan: planOf(weighted),
      kernel: [planOf(weighted)],
      expected: {
        kernelState: 'ok',
        algorithm: 'weighted-random',
        weights: ['10.1.1.1:8080=3', '10.1.1.3:8080=0'],
      },
    },
    {
      name: 'not in the kernel yet',
      plan: planOf(web('10.1.1.1')),
      kernel: [],
      expected: { kernelState: 'missing', desired: ['10.1.1.1:8080'], kernel: [] },
    },
    {
      name: 'the kernel has other backends',
      plan: planOf(web('10.1.1.1', '10.1.1.2')),
      kernel: [planOf(web('10.1.1.1'))],
      expected: { kernelState: 'stale', kernel: ['10.1.1.1:8080'] },
    },
    {
      name: 'in the kernel, not wanted',
      plan: planOf(),
      kernel: [planOf(web('10.1.1.1'))],
      expected: {
        kernelState: 'extra',
        desired: [],
        namespace: 'default',
        name: 'web',
        port: 'http',
      },
    },
    {
      name: 'no agent says what is wanted',
      plan: undefined,
      kernel: [planOf(web('10.1.1.1'))],
      expected: { kernelState: 'unknown', desired: [] },
    },
  ];
  test.each(rows)('$name', ({ plan, kernel, expected }) => {
    expect(serviceRows(plan, frontendViews(kernelAfter(...kernel)), [BPF])).toEqual([
      expect.objectContaining(expected),
    ]);
  });
});

test('services: labels, policies, terminating endpoints and both sets', () => {
  const port = servicePort(
    'web',
    [clusterIp('10.96.0.10'), localNodePort(30080)],
    [backend('10.1.1.1')],
    {
      local: [backend('10.1.1.2', 8080, true)],
      serving: [backend('10.1.1.1'), { ...backend('10.1.1.3'), isTerminating: true }],
    },
  );
  const plan = planOf(port);
  const service = { ...plan.services.get('default/web')!, labels: 'app=web' };
  const labelled = { ...plan, services: new Map([['default/web', service]]) };
  const rows = serviceRows(labelled, frontendViews(kernelAfter(plan)), [BPF]);
  expect(rows).toEqual([
    expect.objectContaining({
      labels: 'app=web',
      kind: 'NodePort',
      internalTrafficPolicy: 'Cluster',
      externalTrafficPolicy: 'Local',
      kernel: ['10.1.1.1:8080'],
      externalKernel: ['10.1.1.2:8080'],
      terminating: ['10.1.1.3:8080'],
      kernelState: 'ok',
      servedBy: ['bpf'],
      limits: ['not served by bpf: packets from outside'],
    }),
    expect.objectContaining({ kind: 'ClusterIP', kernelState: 'ok', limits: [] }),
  ]);
});

test('services: what no dataplane serves is not in sync', () => {
  const port = { ...web('10.1.1.1'), protocol: 'SCTP' } as const;
  const rows = serviceRows(planOf(port), [], [BPF]);
  expect(rows).toEqual([
    expect.objectContaining({
      kernelState: 'not-served',
      servedBy: [],
      limits: ['not served by bpf: SCTP'],
    }),
  ]);
  const balancer = { ...clusterIp('203.0.113.1'), kind: 'LoadBalancer' as const };
  const ranged = servicePort('lb', [{ ...balancer, isFiltered: true }], []);
  expect(serviceRows(planOf(ranged), [], [BPF])[0]).toMatchObject({
    kernelState: 'not-served',
    limits: ['not served by bpf: source ranges', 'not served by bpf: packets from outside'],
  });
});

test('services: what a process of the node listens at is its own, until a dataplane has it', () => {
  const own = { kind: 'ClusterIP', address: '10.96.0.10', port: 80, isListenedTo: true } as const;
  const port = { ...web('10.1.1.1'), frontends: [], onNode: [own] };
  expect(serviceRows(planOf(port), [], [BPF])).toMatchObject([
    {
      kernelState: 'node-process',
      frontend: '10.96.0.10:80/TCP',
      servedBy: ['a process of this node that listens there'],
    },
  ]);
  const held = [...frontendViews(kernelAfter(planOf(web('10.1.1.1'))))];
  expect(serviceRows(planOf(port), held, [BPF])).toMatchObject([{ kernelState: 'extra' }]);
  const unheard = { ...web('10.1.1.1'), onNode: [{ ...own, isListenedTo: false }] };
  expect(serviceRows(planOf(unheard), held, [BPF])).toMatchObject([{ kernelState: 'ok' }]);
});

test('services: what the annotations of a Service leave out has a row that says why', () => {
  const plan = planOf(servicePort('web', [], []));
  const service = plan.services.get('default/web')!;
  const withheld = ['203.0.113.1:80/TCP', '*:30080/TCP IPv6'];
  const exposure = { nodes: 'role=edge', isHere: false, withheld };
  const services = new Map([['default/web', { ...service, exposure }]]);
  const rows = serviceRows({ ...plan, services }, [], [BPF]);
  expect(rows.map(({ frontend, family }) => [frontend, family])).toEqual([
    ['203.0.113.1:80/TCP', 'IPv4'],
    ['*:30080/TCP IPv6', 'IPv6'],
  ]);
  expect(rows[0]).toMatchObject({
    ...{ name: 'web', kernelState: 'withheld', exposedOn: 'role=edge', isExposedHere: false },
    notes: [expect.stringContaining('role=edge')],
  });
});

describe('services: with two dataplanes', () => {
  const serves = { pod: undefined, host: undefined, outside: BPF.serves.pod };
  const PACKETS = { ...BPF, dataplane: 'tc', serves };
  const plan = planOf(servicePort('web', [localNodePort(30080)], [backend('10.1.1.1')]));
  const [view] = [...frontendViews(kernelAfter(plan))];
  const by = (dataplane: string, change = {}) => ({
    ...view!,
    connections: 2,
    dataplane,
    ...change,
  });
  test.each([
    [
      'both have it',
      [by('bpf'), by('tc')],
      'ok',
      ['bpf: sockets of this node', 'tc: packets from outside'],
    ],
    ['one lacks it', [by('bpf')], 'missing', ['bpf']],
    ['one has other backends', [by('bpf'), by('tc', { external: ['x'] })], 'stale', undefined],
    ['one that is to have nothing', [by('bpf'), by('tc'), by('old')], 'extra', undefined],
  ] as const)('%s', (_, views, kernelState, servedBy) => {
    const rows = serviceRows(plan, views, [BPF, PACKETS]);
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({
      kernelState,
      ...(servedBy && { servedBy }),
      connections: 2 * views.length,
    });
  });

  test('connections are the sum over those that count, and absent if none does', () => {
    const none = { connections: undefined, refused: undefined };
    const sums = (...views: readonly ReturnType<typeof by>[]) =>
      serviceRows(plan, views, [BPF, PACKETS]).map(({ connections, refused }) => [
        connections,
        refused,
      ]);
    expect(sums(by('bpf', { refused: 3 }), by('tc', none))).toEqual([[2, 3]]);
    expect(sums(by('bpf', none), by('tc', none))).toEqual([[undefined, undefined]]);
    expect(sums()).toEqual([[undefined, undefined]]);
  });

  test('without an agent each says by whom it is programmed', () => {
    const rows = serviceRows(undefined, [by('bpf'), by('tc')], []);
    expect(rows.map(({ servedBy }) => servedBy)).toEqual([['bpf'], ['tc']]);
  });

  test('a backend of both is wanted in both', () => {
    const [held] = [...backendViews(kernelAfter(plan))];
    const rows = backendRows(plan, [held!, { ...held!, dataplane: 'tc' }]);
    expect(rows.map((row) => [row.dataplane, row.kernelState])).toEqual([
      ['bpf', 'ok'],
      ['tc', 'ok'],
    ]);
  });
});

test('backends: active, terminating and missing ones are told apart', () => {
  const ledger = kernelAfter(planOf(web('10.1.1.1', '10.1.1.2')), planOf(web('10.1.1.2')));
  const rows = backendRows(planOf(web('10.1.1.2', '10.1.1.3')), backendViews(ledger));
  expect(rows.map((row) => [row.backend, row.state, row.isDesired, row.kernelState])).toEqual([
    ['10.1.1.1:8080', 'terminating', false, 'ok'],
    ['10.1.1.2:8080', 'active', true, 'ok'],
    ['10.1.1.3:8080', '', true, 'missing'],
  ]);
});

test('a problem reads as file, line, object, field and reason, as far as each is known', () => {
  const rest = { object: undefined, field: undefined, line: undefined };
  expect(problemText({ ...rest, file: 'a.yaml', reason: 'is not text' })).toBe(
    'a.yaml: is not text',
  );
  expect(
    problemText({
      file: 'a.yaml',
      line: 3,
      object: { kind: 'Service', namespace: 'default', name: 'web' },
      field: 'spec.ports[0].port',
      reason: 'is 0',
    }),
  ).toBe('a.yaml:3: Service default/web: spec.ports[0].port: is 0');
});

test('rows are sorted in steps, equal ones in the order they had', () => {
  const rows = Array.from({ length: 4_321 }, (_, at) => ({ at, text: `${(at * 7_919) % 500}` }));
  const steps = sortedInSteps(rows, ({ text }) => text);
  let count = 0;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) count++;
  expect(step.value).toEqual(
    rows.toSorted((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : a.at - b.at)),
  );
  expect(count).toBeGreaterThan(10);
  expect(sortedInSteps([], String).next()).toEqual({ done: true, value: [] });
});
