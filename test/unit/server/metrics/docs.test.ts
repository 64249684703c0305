// SPDX-License-Identifier: Apache-2.0
// docs/metrics.md lists exactly the metrics of the table, word for word, in its order.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { METRICS } from '../../../../src/server/metrics/table.ts';

test('the documented metrics are the metrics there are', () => {
  const text = readFileSync(new URL('../../../../docs/metrics.md', import.meta.url), 'utf8');
  const documented = text
    .split('\n')
    .filter((line) => /^\| `[a-z_]+` \| (gauge|counter|histogram) \|/.test(line));
  const there = Object.entries(METRICS).map(([name, { type, labels, help }]) => {
    const marked = labels.map((label) => `\`${label}\``).join(', ');
    return `| \`${name}\` | ${type} | ${marked} | ${help} |`;
  });
  expect(documented).toEqual(there);
});

test('names end in their unit, ours carry our prefix, counters count', () => {
  for (const [name, { type, help }] of Object.entries(METRICS)) {
    expect(name).toMatch(/^(kubeproxy|rest_client|fairlead)_[a-z_]+$/);
    expect(help).toMatch(/\.$/);
    if (type === 'counter') expect(name).toMatch(/_total$/);
    if (type === 'histogram') expect(name).toMatch(/_seconds$/);
  }
});
