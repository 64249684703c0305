// SPDX-License-Identifier: Apache-2.0
// The cases that depend on how pods are connected, on the real kube-proxy, on other networks than that of the stories.
// FAIRLEAD_CASES=70 plays only these.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { playCase } from '../../support/fixture/cases/case.ts';
import { kubeProxy } from '../../support/fixture/proxies/kube-proxy.ts';
import { type Stage, startStage } from '../../support/fixture/stage.ts';
import { NETWORKS, networkCases, networkStories } from '../../support/fixture/stories/networks.ts';
import { playStory } from '../../support/fixture/stories/play.ts';
import { openTable, type Table } from '../../support/fixture/stories/table.ts';
import { prepareKubeProxy } from '../cluster/kube-proxy/kube-proxy.ts';
import { prepareCluster } from '../cluster/programs/binaries.ts';

const readiness = await prepareCluster();
const missing = readiness.isReady ? await prepareKubeProxy() : readiness.reason;
const STAGES = NETWORKS.flatMap((network) =>
  (['iptables', 'nftables'] as const).map((mode) => ({ ...network, mode })),
);

describe.skipIf(missing !== undefined).each(STAGES)('$name on $mode', (options) => {
  let stage: Stage;
  let table: Table;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    table = openTable(`oracle-${options.name}-${options.mode}`);
    const start = kubeProxy(readiness.binaries.kubeProxy, options.mode);
    stage = await startStage({ ...options, start });
  }, 120_000);
  afterAll(() => {
    table?.end();
    stage?.remove();
  });

  test.for(networkStories())('$name', { timeout: 120_000 }, async (story) => {
    const results = await playStory(stage, story);
    table.add(story.name, results);
    expect(results.filter(({ result }) => result === 'FAIL')).toEqual([]);
  });

  test.for(networkCases())('$case: $title', { timeout: 120_000 }, async (one) => {
    const results = await playCase(stage, one);
    table.add(`${one.case}: ${one.title}`, results);
    expect(results.filter(({ result }) => result === 'FAIL')).toEqual([]);
  });
});
