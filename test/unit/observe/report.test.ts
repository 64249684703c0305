// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { createBackoff } from '../../../src/agent/backoff.ts';
import { createBpfDataplane } from '../../../src/dataplane/bpf/dataplane.ts';
import { backendViews, frontendViews } from '../../../src/dataplane/bpf/inspect/view.ts';
import { createMemoryTables } from '../../../src/dataplane/bpf/maps/memory.ts';
import { adopt } from '../../../src/dataplane/bpf/sync/adopt.ts';
import { backendRows, serviceRows } from '../../../src/observe/report.ts';
import { problemText } from '../../../src/observe/status.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { backend, clusterIp, planOf, servicePort } from '../dataplane/bpf/plans.ts';

function kernelAfter(...plans: readonly Plan[]) {
  const tables = createMemoryTables({ frontends: 64, backends: 64, slotBlocks: 64, services: 64 });
  const dataplane = createBpfDataplane(tables, () => Promise.resolve());
  for (const plan of plans) dataplane.apply(plan, 'all');
  return adopt(tables).ledger;
}

const web = (...addresses: string[]) =>
  servicePort(
    'web',
    [clusterIp('10.96.0.10')],
    addresses.map((a) => backend(a)),
    { serving: [backend('10.1.1.1')] },
  );

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
      name: 'not in the kernel yet',
      plan: planOf(web('10.1.1.1')),
      kernel: [],
      expected: { kernelState: 'missing', desired: ['10.1.1.1:8080'], kernel: undefined },
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
        desired: undefined,
        namespace: 'default',
        name: 'web',
        port: 'http',
      },
    },
    {
      name: 'no agent says what is wanted',
      plan: undefined,
      kernel: [planOf(web('10.1.1.1'))],
      expected: { kernelState: 'unknown', desired: undefined },
    },
  ];
  test.each(rows)('$name', ({ plan, kernel, expected }) => {
    expect(serviceRows(plan, frontendViews(kernelAfter(...kernel)))).toEqual([
      expect.objectContaining(expected),
    ]);
  });
});

test('backends: active, terminating and missing ones are told apart', () => {
  const ledger = kernelAfter(planOf(web('10.1.1.1', '10.1.1.2')), planOf(web('10.1.1.2')));
  const rows = backendRows(planOf(web('10.1.1.2', '10.1.1.3')), backendViews(ledger));
  expect(rows.map((row) => [row.backend, row.state, row.desired, row.kernelState])).toEqual([
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
      object: 'Service default/web',
      field: 'spec.ports[0].port',
      reason: 'is 0',
    }),
  ).toBe('a.yaml:3: Service default/web: spec.ports[0].port: is 0');
});

test('pauses double up to the limit, jittered, and begin anew after a reset', () => {
  const backoff = createBackoff({ firstMs: 100, maxMs: 1_000 }, () => 1);
  expect([1, 2, 3, 4, 5].map(() => backoff.nextMs())).toEqual([100, 200, 400, 800, 1_000]);
  backoff.reset();
  expect(backoff.nextMs()).toBe(100);
  expect(createBackoff({ firstMs: 100, maxMs: 1_000 }, () => 0).nextMs()).toBe(50);
});
