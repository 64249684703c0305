// SPDX-License-Identifier: Apache-2.0
// The dashboard is drawn from its code as it is, and asks for metrics that there are.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { METRICS } from '../../../src/server/metrics/metric-rows.ts';

const deploy = new URL('../../../deploy/', import.meta.url);
const text = readFileSync(new URL('helm/fairlead/files/dashboard.json', deploy), 'utf8');

interface Panel {
  readonly title: string;
  readonly type: string;
  readonly targets?: readonly { readonly expr: string }[];
  readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>;
}

const { panels } = JSON.parse(text) as {
  readonly panels: readonly Panel[];
};
/** prom-client's own. */
const OF_PROCESS = ['process_resident_memory_bytes', 'process_cpu_seconds_total'];

describe('the dashboard', () => {
  test('is what deploy/grafana/dashboard.mjs draws: else `node deploy/grafana/dashboard.mjs`', () => {
    const module = new URL('grafana/dashboard.mjs', deploy).href;
    const print = `import { dashboardText } from '${module}'; process.stdout.write(dashboardText())`;
    const args = ['--input-type=module', '-e', print];
    expect(execFileSync('node', args, { encoding: 'utf8' })).toBe(text);
  });

  test('asks for metrics that the agent has', () => {
    const exprs = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    expect(exprs.length).toBeGreaterThan(10);
    const asked = exprs.flatMap(
      (expr) => expr.match(/\b(?:fairlead|kubeproxy|process)_\w+/g) ?? [],
    );
    const known = [...Object.keys(METRICS), ...OF_PROCESS];
    expect(asked.filter((name) => !known.includes(name.replace(/_bucket$/, '')))).toEqual([]);
  });

  test('its panels fill rows and do not overlap', () => {
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, n) => `${x + (n % w)},${y + Math.floor(n / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(cells.length % 24).toBe(0);
  });
});
