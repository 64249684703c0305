// SPDX-License-Identifier: Apache-2.0
// What the Maglev table of a set of a service port is made of.
import type { Algorithm } from '../../model/types.ts';
import { weightFor } from '../decide/balancing.ts';
import type { BackendList, ServicePortPlan } from '../types.ts';
import { entriesFor } from './size.ts';
import type { MaglevInput } from './table.ts';

const MAGLEV: Algorithm = 'maglev';

/** Names have no id of this node: the table is the same on every node. */
export function maglevInput(
  { protocol, tableEntries }: Pick<ServicePortPlan, 'protocol' | 'tableEntries'>,
  backends: BackendList,
): MaglevInput {
  return {
    names: backends.map(({ address, port }) => `${protocol}/${address}/${port}`),
    weights: backends.map(weightFor(MAGLEV)),
    entries: entriesFor(backends.length, tableEntries),
  };
}
