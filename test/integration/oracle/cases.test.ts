// SPDX-License-Identifier: Apache-2.0
// The cases that are more than one connection, on the real kube-proxy in both modes. FAIRLEAD_CASES=126,127 plays only
// these.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { allCases } from '../../support/fixture/cases/all.ts';
import { playCase } from '../../support/fixture/cases/case.ts';
import { kubeProxy } from '../../support/fixture/proxies/kube-proxy.ts';
import { type Stage, startStage } from '../../support/fixture/stage.ts';
import { openTable, type Table } from '../../support/fixture/stories/table.ts';
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
    table = openTable(`oracle-cases-${mode}`);
    stage = await startStage({ network: 'routed', mode, start });
  }, 120_000);
  afterAll(() => {
    table?.end();
    stage?.remove();
  });

  test.for(allCases())('$case: $title', { timeout: 180_000 }, async (one) => {
    const results = await playCase(stage, one);
    table.add(`${one.case}: ${one.title}`, results);
    expect(results.filter(({ result }) => result === 'FAIL')).toEqual([]);
  });
});
