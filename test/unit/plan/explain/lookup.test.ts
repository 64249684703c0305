// SPDX-License-Identifier: Apache-2.0
// What explain says of a flow that Maglev chooses for: the entry and the backend, as the model has them.
import { describe, expect, test } from 'vitest';
import { BPF, IPTABLES } from '../../../../src/engines/capabilities.ts';
import { answer } from '../../../../src/observe/answer.ts';
import { serviceRows } from '../../../../src/observe/service-rows.ts';
import { entryOf, flowHash } from '../../../../src/plan/maglev/hash.ts';
import { maglevInput } from '../../../../src/plan/maglev/input.ts';
import { maglevTable } from '../../../../src/plan/maglev/maglev-table.ts';
import type { ServicePortPlan } from '../../../../src/plan/types.ts';
import { backend, clusterIp, localNodePort, planOf, servicePort } from '../../engines/bpf/plans.ts';

const ALL = [5, 6, 7].map((host) => backend(`10.1.1.${host}`));
const web = (how: Partial<ServicePortPlan> = {}): ServicePortPlan => ({
  ...servicePort('web', [clusterIp('10.96.0.10')], ALL, { algorithm: 'maglev' }),
  ...how,
});

const packet = {
  ...{ source: '127.0.0.1', destination: '10.96.0.10', destinationPort: 80 },
  protocol: 'TCP',
} as const;

const explained = (port: ServicePortPlan, sourcePort?: number, dataplane = BPF) =>
  answer(planOf(port), sourcePort === undefined ? packet : { ...packet, sourcePort }, {
    dataplanes: [dataplane],
  });

function expectedBackend(sourcePort: number): { readonly entry: number; readonly text: string } {
  const input = maglevInput(web(), ALL);
  const entry = entryOf(flowHash({ ...packet, sourcePort }), input.entries);
  return { entry: entry + 1, text: `${ALL[maglevTable(input)[entry] ?? 0]?.address}:8080` };
}

describe('explain', () => {
  test('names backend and entry of a flow', () => {
    const found = new Set<string | undefined>();
    for (let port = 40_000; port < 40_020; port += 1) {
      const { entry, text } = expectedBackend(port);
      const { chosen, steps, backends } = explained(web(), port);
      expect(chosen).toBe(text);
      expect(backends).toHaveLength(3);
      expect(steps).toContainEqual({
        rule: 'maglev',
        result: text,
        reason: `entry ${entry} of 1009 of the table, by a hash of client and frontend, addresses and ports`,
      });
      found.add(chosen);
    }
    expect(found.size).toBe(3);
  });

  test('asks for the port of the client', () => {
    const { chosen, steps } = explained(web());
    expect(chosen).toBeUndefined();
    expect(steps).toContainEqual({
      rule: 'maglev',
      result: 'not known',
      reason: expect.stringContaining('--from 127.0.0.1:40000'),
    });
  });

  test('needs none with session affinity', () => {
    const port = web({ affinityTimeoutSeconds: 600 });
    expect(explained(port).chosen).toBe(expectedBackend(0).text);
    expect(explained(port, 40_000).chosen).toBe(expectedBackend(0).text);
  });

  test('does not name one where iptables chooses', () => {
    const { chosen, steps } = explained(web(), 40_000, IPTABLES);
    expect(chosen).toBeUndefined();
    expect(steps.map(({ rule, result }) => `${rule} ${result}`)).toEqual(
      expect.arrayContaining(['algorithm maglev', 'algorithm weighted-random']),
    );
    expect(steps.filter(({ rule }) => rule === 'maglev')).toEqual([]);
  });
});

test('services have the size of the table, and the algorithm of clients from outside', () => {
  const frontends = [clusterIp('10.96.0.10'), localNodePort(30_080)];
  const rows = (how: Partial<ServicePortPlan>) =>
    serviceRows(planOf(web({ frontends, local: ALL.slice(1), ...how })), [], [BPF]).map(
      ({ kind, algorithm, externalAlgorithm, tableEntries }) => [
        kind,
        algorithm,
        externalAlgorithm,
        tableEntries,
      ],
    );
  expect(rows({ tableEntries: 251 })).toEqual([
    ['NodePort', 'maglev', undefined, 251],
    ['ClusterIP', 'maglev', undefined, 251],
  ]);
  expect(rows({ algorithm: 'random', externalAlgorithm: 'maglev' })).toEqual([
    ['NodePort', 'random', 'maglev', 1009],
    ['ClusterIP', 'random', undefined, undefined],
  ]);
});
