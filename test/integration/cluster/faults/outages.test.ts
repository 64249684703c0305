// SPDX-License-Identifier: Apache-2.0
// The API server stops and comes back: the time from its readyz until changes are programmed again. To measure,
// set FAIRLEAD_OUTAGES=20 on an otherwise idle machine.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ServiceRow } from '../../../../src/observe/service-rows.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { startOneNode } from '../../../support/node.ts';
import { readyEndpoint, sliceObject } from '../../../support/objects.ts';
import { atNight } from '../../../support/random.ts';
import { untilHolds } from '../../../support/until.ts';
import { type ClusterAgent, startClusterAgent } from '../agent/agent.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import { addNode, addService, servicesPath, slicesPath } from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { countFromNow, sum, untilFollowed } from './fault-counts.ts';

const readiness = await prepareCluster();
const isMeasuring = process.env['FAIRLEAD_OUTAGES'] !== undefined;
const OUTAGES = Number(process.env['FAIRLEAD_OUTAGES'] ?? atNight(1, 3));
const OUTAGE_MS = isMeasuring ? 10_000 : 30_000;
/**
 * With a single node there is no jitter. The limits of a machine with other work are only below what a backoff
 * that counted the outage would take, a second longer than the outage and more.
 */
const [MEDIAN_MS, LONGEST_MS] = isMeasuring ? [2_000, 5_000] : [24_000, 25_000];

describe.skipIf(!readiness.isReady)('an API server that stops and comes back', () => {
  let plane: ControlPlane;
  let node: Awaited<ReturnType<typeof startOneNode>>;
  let agent: ClusterAgent;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    plane = await startControlPlane(readiness.binaries, { controllers: 'none' });
    node = await startOneNode(['web-1']);
    await plane.connect({ namespace: node.instance.sandbox.namespace, index: 1 });
    await addNode(plane.api, { name: 'n1', addresses: ['192.168.77.1'], zone: 'a' });
    agent = await startClusterAgent(plane, node, { identity: 'proxy' });
  });
  afterAll(async () => {
    await agent?.stop();
    node?.remove();
    await plane?.remove();
  });

  const status = async () => (await node.status()).source.cluster!;
  const rows = async () => (await askAgent(node.instance.runDir, '/v1/services')) as ServiceRow[];

  async function addWithBackend(name: string): Promise<void> {
    await addService(plane.api, name, {});
    await plane.api.create(slicesPath(), sliceObject(name, [readyEndpoint('10.1.1.5')]));
  }
  /** Waits until exactly these Services, besides `kubernetes`, are programmed, each with its backend. */
  const served = (names: readonly string[]): Promise<void> =>
    untilHolds(async () => {
      const found = (await rows()).filter(({ name }) => name !== 'kubernetes');
      const backends = found.map(({ name, kernel }) => `${name} ${kernel?.length}`);
      expect(backends.sort()).toEqual(names.map((name) => `${name} 1`).sort());
    });

  /** Milliseconds from readyz until a new Service is served and a deleted one is not. */
  async function outage(round: number): Promise<number> {
    const [before, after] = [`s${round}`, `s${round + 1}`];
    // A stopped server ends its watches cleanly; a killed one breaks them.
    if (round % 2 === 0) await plane.server.stop();
    else await plane.server.kill();
    await delay(OUTAGE_MS);
    await plane.server.start();
    const readyMs = performance.now();
    await Promise.all([addWithBackend(after), plane.api.remove(`${servicesPath()}/${before}`)]);
    await served([after]);
    return performance.now() - readyMs;
  }

  test(`${OUTAGES} outages of ${OUTAGE_MS / 1000} s`, {
    timeout: 300_000 * (1 + OUTAGES),
  }, async () => {
    await addWithBackend('s0');
    await served(['s0']);
    await untilFollowed(status);
    const counts = await countFromNow(status);
    const took: number[] = [];
    for (let round = 0; round < OUTAGES; round += 1) {
      took.push(await outage(round));
      await untilFollowed(status);
    }
    const sorted = took.toSorted((a, b) => a - b);
    const seconds = sorted.map((ms) => (ms / 1000).toFixed(1)).join(' ');
    process.stderr.write(`outages: from readyz to served, seconds: ${seconds}\n`);
    expect(await counts.suspicious()).toBe(0);
    expect(sum(await counts.ended('replaced'))).toBe(0);
    expect(sorted[Math.floor(sorted.length / 2)]).toBeLessThan(MEDIAN_MS);
    expect(sorted.at(-1)).toBeLessThan(LONGEST_MS);
  });
});
