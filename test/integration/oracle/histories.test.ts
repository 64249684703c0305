// SPDX-License-Identifier: Apache-2.0
// Random states of a Service, one after the other: what each client meets at each frontend is what the plan says, on the
// real kube-proxy in both modes. FAIRLEAD_HISTORIES=200 plays more of them; a failure prints its seed.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { drawn, storyOf } from '../../support/fixture/histories.ts';
import { kubeProxy } from '../../support/fixture/proxies/kube-proxy.ts';
import { type Stage, startStage } from '../../support/fixture/stage.ts';
import { playStory } from '../../support/fixture/stories/play.ts';
import { repeatable } from '../../support/random.ts';
import { prepareKubeProxy } from '../cluster/kube-proxy/kube-proxy.ts';
import { prepareCluster } from '../cluster/programs/binaries.ts';

const COUNT = Number(process.env['FAIRLEAD_HISTORIES'] ?? 20);
const STATE_MS = 60_000;

const readiness = await prepareCluster();
const missing = readiness.isReady ? await prepareKubeProxy() : readiness.reason;

describe.skipIf(missing !== undefined).each(['iptables', 'nftables'] as const)('%s', (mode) => {
  let stage: Stage;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    const start = kubeProxy(readiness.binaries.kubeProxy, mode);
    stage = await startStage({ network: 'routed', mode, start });
  }, 120_000);
  afterAll(() => stage?.remove());

  test(`${COUNT} states`, { timeout: COUNT * STATE_MS }, async () => {
    const isPlayed = fc.asyncProperty(drawn, async (state) => {
      const results = await playStory(stage, storyOf(state));
      expect(results.filter(({ result }) => result === 'FAIL')).toEqual([]);
    });
    await fc.assert(isPlayed, repeatable(COUNT));
  });
});
