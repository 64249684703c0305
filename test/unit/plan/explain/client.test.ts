// SPDX-License-Identifier: Apache-2.0
// Who a client is: by the plan's rules, and as dataplanes meet it.
import { expect, test } from 'vitest';
import { clientOf } from '../../../../src/plan/explain/client.ts';
import { createPlanner } from '../../../support/plan/planner.ts';
import { node, SETTINGS } from '../support.ts';

const planner = createPlanner(SETTINGS);
const spec = { podCIDRs: ['10.1.1.0/24'] };
const plan = planner.apply([node('n1', '192.0.2.11', { spec }), node('n2', '192.0.2.12')]).plan;

test.each([
  ['10.1.1.5', 'pod here', 'pod', 'pod'],
  ['192.0.2.11', 'host process', 'host', 'host'],
  ['10.1.2.5', 'pod elsewhere', 'pod', 'outside'],
  ['192.0.2.12', 'other node', 'outside', 'outside'],
  ['203.0.113.9', 'outside', 'outside', 'outside'],
])('%s is %s: by policy %s, served as %s', (source, kind, position, servedAs) => {
  const packet = {
    source,
    destination: '10.96.0.1',
    destinationPort: 80,
    protocol: 'TCP',
  } as const;
  expect(clientOf(plan, packet)).toMatchObject({ kind, position, servedAs });
});
