// SPDX-License-Identifier: Apache-2.0
// docs/metrics.md lists exactly the metrics, alerts and Events there are, word for word and in order.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { EVENTS } from '../../../../src/server/events/event.ts';
import { METRICS } from '../../../../src/server/metrics/metric-rows.ts';
import { parseYaml } from '../../../support/yaml.ts';

const read = (path: string): string =>
  readFileSync(new URL(`../../../../${path}`, import.meta.url), 'utf8');
const rows = (start: RegExp): string[] =>
  read('docs/metrics.md')
    .split('\n')
    .filter((line) => start.test(line));

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly summary: string; readonly action: string };
}
const rules = (
  parseYaml(read('deploy/helm/fairlead/files/rules.yaml')) as {
    groups: { rules: readonly Rule[] }[];
  }
).groups.flatMap((group) => group.rules);

test('the documented metrics are the metrics there are', () => {
  const there = Object.entries(METRICS).map(([name, { type, labels, help }]) => {
    const marked = labels.map((label) => `\`${label}\``).join(', ');
    return `| \`${name}\` | ${type} | ${marked} | ${help} |`;
  });
  expect(rows(/^\| `[a-z_]+` \| (gauge|counter|histogram) \|/)).toEqual(there);
});

test('names have a prefix and end in their unit, counters in _total', () => {
  for (const [name, { type, help }] of Object.entries(METRICS)) {
    expect(name).toMatch(/^(kubeproxy|rest_client|fairlead)_[a-z_]+$/);
    expect(help).toMatch(/\.$/);
    if (type === 'counter') expect(name).toMatch(/_total$/);
    if (type === 'histogram') expect(name).toMatch(/_seconds$/);
  }
});

test('the documented alerts are those of the rules file, and read metrics there are', () => {
  expect(rows(/^\| `Fairlead\w+` \|/)).toEqual(
    rules.map((rule) => {
      const { summary, action } = rule.annotations;
      return `| \`${rule.alert}\` | ${summary} ${action} |`;
    }),
  );
  for (const { alert, expr } of rules) {
    const metrics = expr.match(/(fairlead|kubeproxy|rest_client)_\w+/g) ?? [];
    expect(metrics.length, alert).toBeGreaterThan(0);
    for (const metric of metrics)
      expect(Object.keys(METRICS), alert).toContain(metric.replace(/_bucket$/, ''));
  }
});

test('each alert is provoked in a test of a live agent', () => {
  const tests = [
    ...['netns/cli/metrics', 'cluster/agent/metrics', 'nodes/on-this-node'],
    ...['netns/compare/shadow', 'oracle/shadow'],
  ].map((name) => read(`test/integration/${name}.test.ts`));
  for (const { alert } of rules) expect(tests.join('\n')).toContain(`${alert}`);
});

test('the documented Events are those there are', () => {
  const there = Object.entries(EVENTS).map(
    ([reason, { type, action }]) => `| \`${reason}\` | ${type} | \`${action}\` |`,
  );
  const documented = rows(/^\| `\w+` \| (Normal|Warning) \|/);
  expect(documented.map((row) => row.split('|').slice(0, 4).join('|').concat('|'))).toEqual(there);
});
