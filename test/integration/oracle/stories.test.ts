// SPDX-License-Identifier: Apache-2.0
// Every story of test/conformance that has a client, on the real kube-proxy in both modes: what it does differently must
// be known. FAIRLEAD_CASES=1,13 plays only these.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { kubeProxy } from '../../support/fixture/proxies/kube-proxy.ts';
import { type Stage, startStage } from '../../support/fixture/stage.ts';
import { playStory } from '../../support/fixture/stories/play.ts';
import { openTable, playable, type Table } from '../../support/fixture/stories/table.ts';
import { prepareKubeProxy } from '../cluster/kube-proxy/kube-proxy.ts';
import { prepareCluster } from '../cluster/programs/binaries.ts';

const readiness = await prepareCluster();
const missing = readiness.isReady ? await prepareKubeProxy() : readiness.reason;

describe.skipIf(missing !== undefined).each(['iptables', 'nftables'] as const)('%s', (mode) => {
  let stage: Stage;
  let table: Table;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    const start = kubeProxy(readiness.binaries.kubeProxy, mode);
    table = openTable(`oracle-${mode}`);
    stage = await startStage({ network: 'routed', mode, start });
  }, 120_000);
  afterAll(() => {
    table?.end();
    stage?.remove();
  });

  test.each(playable())(
    '$name',
    async (story) => {
      const results = await playStory(stage, story);
      table.add(story.name, results);
      expect(results.filter(({ result }) => result === 'FAIL')).toEqual([]);
    },
    120_000,
  );
});
