// SPDX-License-Identifier: Apache-2.0
// The cases that are more than one connection, on fairlead. FAIRLEAD_CASES=126,127 plays only these.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { allCases } from '../../support/fixture/cases/all.ts';
import { playCase } from '../../support/fixture/cases/case.ts';
import { fairlead } from '../../support/fixture/proxies/fairlead.ts';
import { type Stage, startStage } from '../../support/fixture/stage.ts';
import { openTable, type Table, untriedReason } from '../../support/fixture/stories/table.ts';

describe.each(['fairlead', 'fairlead-packets'] as const)('%s', (mode) => {
  let stage: Stage;
  let table: Table;

  beforeAll(async () => {
    table = openTable(`cases-${mode}`);
    stage = await startStage({ network: 'routed', mode, start: fairlead });
  }, 120_000);
  afterAll(() => {
    table?.end();
    stage?.remove();
  });

  test.for(allCases())('$case: $title', { timeout: 180_000 }, async (one, context) => {
    const results = await playCase(stage, one);
    table.add(`${one.case}: ${one.title}`, results);
    expect(results.filter(({ result }) => result === 'FAIL')).toEqual([]);
    const reason = untriedReason(results);
    if (reason !== undefined) context.skip(reason);
  });
});
