// SPDX-License-Identifier: Apache-2.0
// What the Maglev table of a set of a service port is made of.
import type { LookupInput } from '../lookup-table.ts';
import type { BackendList, ServicePortPlan } from '../types.ts';
import { entriesFor } from './size.ts';

/** Names have no id of this node: the table is the same on every node. */
export function maglevInput(
  { protocol, tableEntries }: Pick<ServicePortPlan, 'protocol' | 'tableEntries'>,
  backends: BackendList,
): LookupInput {
  return {
    names: backends.map(({ address, port }) => `${protocol}/${address}/${port}`),
    weights: backends.map(({ weight = 1 }) => weight),
    entries: entriesFor(backends.length, tableEntries),
  };
}
