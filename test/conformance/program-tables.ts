// SPDX-License-Identifier: Apache-2.0
// The BPF dataplane over any tables, behind the router and driven as the agent drives it, with the addresses of the plan's node.
import type { Tables } from '../../src/dataplane/bpf/maps/tables.ts';
import type { Capabilities } from '../../src/dataplane/capabilities.ts';
import { createRouter } from '../../src/dataplane/router.ts';
import { familyOf } from '../../src/lib/ip.ts';
import type { Plan } from '../../src/plan/types.ts';
import { memoryDataplane } from '../support/dataplane/memory-dataplane.ts';
import type { Subject } from './conformance.ts';

const addressesOf = (plan: Plan) =>
  [...plan.node.localAddresses, '127.0.0.1', '::1'].map((address) => ({
    family: familyOf(address),
    address,
  }));

export function programTables(
  tables: Tables,
  capabilities: Capabilities,
): Pick<Subject, 'sync' | 'close'> {
  const dataplane = createRouter([memoryDataplane(tables, { capabilities })]);
  return {
    async sync(plan, changed) {
      const { failed } = await dataplane.sync(plan, changed, addressesOf(plan));
      if (failed.length > 0) throw new Error(JSON.stringify(failed));
    },
    close: () => dataplane.close(),
  };
}
