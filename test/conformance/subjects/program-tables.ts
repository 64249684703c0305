// SPDX-License-Identifier: Apache-2.0
// A dataplane behind the router, driven as the agent drives it, with the addresses of the plan's node.
import type { Tables } from '../../../src/engines/bpf/state/tables.ts';
import type { Capabilities } from '../../../src/engines/capabilities.ts';
import type { Dataplane } from '../../../src/engines/dataplane.ts';
import { createRouter } from '../../../src/engines/router/router.ts';
import { familyOf } from '../../../src/lib/ip.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { memoryDataplane } from '../../support/dataplane/memory-dataplane.ts';
import type { Subject } from '../conformance.ts';

export const nodeAddressesOf = (plan: Plan) =>
  [...plan.node.localAddresses, '127.0.0.1', '::1'].map((address) => ({
    family: familyOf(address),
    address,
  }));

type Driven = Pick<Subject, 'sync' | 'close'>;

/** The BPF dataplane over any tables. */
export const programTables = (tables: Tables, capabilities: Capabilities): Driven =>
  driven(memoryDataplane(tables, { capabilities }));

export function driven(one: Dataplane): Driven {
  const dataplane = createRouter([one]);
  return {
    async sync(plan) {
      const { report } = await dataplane.sync(plan, nodeAddressesOf(plan));
      if (report.failed.length > 0) throw new Error(JSON.stringify(report.failed));
    },
    close: () => dataplane.close(),
  };
}
