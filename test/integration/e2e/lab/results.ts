// SPDX-License-Identifier: Apache-2.0
// What every scenario counted, for the table that scripts/docs/e2e-table.mjs prints.
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
  /** Of these, datagrams from a source port that had been used within two minutes. */
  readonly fromUsedPorts: number;
  readonly longestMs: number;
}

/**
 * Of one scenario. Such a datagram belongs to the flow of the one before it, and is lost if the endpoint of that is just ending: with kube-proxy
 * as with fairlead, once in some ten rolling updates at this rate (docs/performance.md).
 */
const MOST_FROM_USED_PORTS = 1;
/** As go/pod/ports.go says it. */
const USED_PORT = '(source port used ';

const FOLDER = join(packageRoot(), 'build', 'test', 'e2e');

type Action = (stage: Stage) => Promise<void>;

export interface Results {
  /** Runs `action` under load and counts; fails if a request failed, but for MOST_FROM_USED_PORTS. */
  scenario(stage: Stage, name: string, load: Load, action: Action): Promise<void>;
  /** The same where failures are what is measured. */
  measure(stage: Stage, name: string, load: Load, action: Action): Promise<Row>;
  /** Writes the rows where scripts/docs/e2e-table.mjs reads them. */
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
      expect(counts.filter((each) => each.failed > fromUsedPorts(each))).toEqual([]);
      expect(row.fromUsedPorts).toBeLessThanOrEqual(MOST_FROM_USED_PORTS);
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
    fromUsedPorts: sum(fromUsedPorts),
    longestMs: Math.max(...counts.map(({ longestMs }) => longestMs)),
  };
  return { row, counts };
}

const fromUsedPorts = ({ errors }: Count): number =>
  Object.entries(errors)
    .filter(([message]) => message.includes(USED_PORT))
    .reduce((all, [, times]) => all + times, 0);
