// SPDX-License-Identifier: Apache-2.0
// What every scenario counted, for the table that scripts/e2e-table.mjs prints.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { packageRoot } from '../../../../src/sys/package.ts';
import type { Count, Load } from './load.ts';
import { underLoad } from './load.ts';
import type { Stage } from './stage.ts';

export interface Row {
  readonly scenario: string;
  readonly seconds: number;
  readonly requests: number;
  readonly failed: number;
  readonly longestMs: number;
}

const FOLDER = join(packageRoot(), 'build', 'test', 'e2e');

type Action = (stage: Stage) => Promise<void>;

export interface Results {
  /** Runs `action` under load and counts; fails if a request failed. */
  scenario(stage: Stage, name: string, load: Load, action: Action): Promise<void>;
  /** The same where failures are what is measured. */
  measure(stage: Stage, name: string, load: Load, action: Action): Promise<Row>;
  /** Writes the rows where scripts/e2e-table.mjs reads them. */
  save(): void;
}

/** `name`: of the test file. */
export function openResults(name: string): Results {
  const rows: Row[] = [];
  const count: Results['measure'] = async (stage, scenario, load, action) => {
    const { row, counts } = await counted(stage, scenario, load, action);
    rows.push(row);
    const failed = counts.filter((each) => each.failed > 0);
    process.stderr.write(`${scenario}: ${JSON.stringify(failed, null, 1)}\n`);
    return row;
  };
  return {
    measure: count,
    scenario: async (stage, scenario, load, action) => {
      const { row, counts } = await counted(stage, scenario, load, action);
      rows.push(row);
      process.stderr.write(`${scenario}: ${row.failed} of ${row.requests} failed\n`);
      expect(counts.filter(({ failed }) => failed > 0)).toEqual([]);
    },
    save: () => {
      mkdirSync(FOLDER, { recursive: true });
      writeFileSync(join(FOLDER, `${name}.json`), JSON.stringify(rows));
    },
  };
}

async function counted(
  stage: Stage,
  scenario: string,
  load: Load,
  action: Action,
): Promise<{ readonly row: Row; readonly counts: readonly Count[] }> {
  const began = performance.now();
  const counts = await underLoad(stage, stage.clients, load, () => action(stage));
  const sum = (of: (count: Count) => number): number =>
    counts.reduce((all, each) => all + of(each), 0);
  const row = {
    scenario,
    seconds: Math.round((performance.now() - began) / 1000),
    requests: sum(({ requests }) => requests),
    failed: sum(({ failed }) => failed),
    longestMs: Math.max(...counts.map(({ longestMs }) => longestMs)),
  };
  return { row, counts };
}
