// SPDX-License-Identifier: Apache-2.0
// Random histories of API operations through a real API server. After each step the agent must show what
// `buildAll` computes from a fresh list of all objects, and the kernel must hold exactly that.
// FAIRLEAD_HISTORIES=500 runs more of them; a failure prints its seed and its steps.

import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bpfCapabilities } from '../../../../src/engines/capabilities.ts';
import { type ServiceRow, serviceRows } from '../../../../src/observe/service-rows.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { startOneNode } from '../../../support/node.ts';
import { ANY_NUMBER_MS, atNight, repeatable } from '../../../support/random.ts';
import { untilHolds } from '../../../support/until.ts';
import { type ClusterAgent, startClusterAgent } from '../agent/agent.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import { ApiError } from '../objects/api.ts';
import { addNode, servicesPath, slicesPath } from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { type Step, step } from './operations.ts';
import { listObjects, POD_RANGES, planOf } from './oracle.ts';

const COUNT = Number(process.env['FAIRLEAD_HISTORIES'] ?? atNight(20, 200));
const STEPS = 10;
const sorted = (set: readonly string[] | undefined): string =>
  set === undefined ? 'absent' : `[${set.toSorted().join()}]`;
const textOf = (row: ServiceRow, set: ServiceRow['desired'], affinitySeconds: number): string =>
  `${row.namespace}/${row.name} ${row.frontend} ${row.family} ${affinitySeconds} ${sorted(set)}`;

/** Desired or programmed, in the same notation. */
const desired = (rows: readonly ServiceRow[]): string[] =>
  rows.map((row) => textOf(row, row.desired, row.affinitySeconds)).sort();
const held = (rows: readonly ServiceRow[]): string[] =>
  rows.map((row) => textOf(row, row.kernel, row.affinitySeconds)).sort();

const readiness = await prepareCluster();

describe.skipIf(!readiness.isReady)('random histories', () => {
  let plane: ControlPlane;
  let node: Awaited<ReturnType<typeof startOneNode>>;
  let agent: ClusterAgent;
  const refused = new Map<number, number>();
  let steps = 0;
  let compared = 0;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    // No controllers, so that all slices are created by the test.
    plane = await startControlPlane(readiness.binaries, { controllers: 'none' });
    node = await startOneNode([]);
    await plane.connect({ namespace: node.instance.sandbox.namespace, index: 1 });
    await addNode(plane.api, { name: 'n1', addresses: ['192.168.77.1'], zone: 'a' });
    const flags = ['--cluster-cidr', POD_RANGES];
    agent = await startClusterAgent(plane, node, { identity: 'proxy', flags });
  });
  afterAll(async () => {
    await agent?.stop();
    node?.remove();
    await plane?.remove();
  });

  const rows = async (): Promise<readonly ServiceRow[]> =>
    (await askAgent(node.instance.runDir, '/v1/services')) as readonly ServiceRow[];

  async function isRight(): Promise<void> {
    const objects = await listObjects(plane.api);
    const meant = desired(
      serviceRows(planOf(objects, 'n1'), [], [bpfCapabilities({ packets: true })]),
    );
    compared += meant.length;
    await untilHolds(async () => {
      const shown = await rows();
      expect(held(shown)).toEqual(meant);
      expect(desired(shown)).toEqual(meant);
      expect(shown.filter(({ kernelState }) => kernelState !== 'ok')).toEqual([]);
    });
  }

  async function take(step: Step): Promise<void> {
    steps += 1;
    try {
      await step.run(plane.api);
    } catch (error) {
      if (!(error instanceof ApiError) || ![404, 409, 422].includes(error.status)) throw error;
      refused.set(error.status, (refused.get(error.status) ?? 0) + 1);
    }
  }

  async function clear(): Promise<void> {
    for (const { ref } of await listObjects(plane.api)) {
      if (ref.name.startsWith('kubernetes')) continue;
      if (ref.kind === 'Service') await plane.api.remove(`${servicesPath()}/${ref.name}`);
      if (ref.kind === 'EndpointSlice') await plane.api.remove(`${slicesPath()}/${ref.name}`);
    }
  }

  async function runHistory(history: readonly Step[]): Promise<void> {
    for (const one of history) {
      await take(one);
      await isRight();
    }
    await clear();
    await isRight();
  }

  test(
    `after each step of ${COUNT} histories the kernel holds what the API means`,
    async () => {
      const history = fc.array(step, { minLength: STEPS, maxLength: STEPS });
      await fc.assert(fc.asyncProperty(history, runHistory), repeatable(COUNT));
      const failures = [...refused.values()].reduce((sum, count) => sum + count, 0);
      // Most operations must be accepted and leave frontends, or the histories test nothing.
      expect(failures, JSON.stringify([...refused])).toBeLessThan(steps / 2);
      expect(compared).toBeGreaterThan(steps * 3);
      expect((await node.status()).sync.driftTotal).toBe(0);
    },
    ANY_NUMBER_MS,
  );
});
