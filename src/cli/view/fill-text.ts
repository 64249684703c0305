// SPDX-License-Identifier: Apache-2.0
// How full the maps are, as text.
import type { TableFill } from '../../dataplane/snapshot.ts';

/** What the entries of each map are: none of them are Services. */
const TABLE_TEXT: Readonly<Record<string, string>> = {
  fl_frontend4: 'IPv4 frontends, and an entry for the other ports of each ClusterIP',
  fl_frontend6: 'IPv6 frontends, and an entry for the other ports of each ClusterIP',
  'backend ids': 'backends of both families',
  fl_slot_block: 'slot blocks of backend sets',
  fl_service: 'Service ports of both families',
  fl_range: 'Ranges of source addresses',
  fl_flow4: 'established IPv4 flows, by client',
  fl_flow6: 'established IPv6 flows, by client',
  fl_nat4: 'the same, by client and backend',
  fl_nat6: 'the same, by client and backend',
  fl_snat4: 'the masqueraded ones, by SNAT address',
  fl_snat6: 'the masqueraded ones, by SNAT address',
  fl_new_flow4: 'half-open IPv4 flows; when full, the least recently used is evicted',
  fl_new_flow6: 'half-open IPv6 flows; when full, the least recently used is evicted',
  fl_new_nat4: 'the same, by client and backend',
  fl_new_nat6: 'the same, by client and backend',
  fl_new_snat4: 'the masqueraded ones, by SNAT address',
  fl_new_snat6: 'the masqueraded ones, by SNAT address',
};

const percent = ({ used, capacity }: TableFill): number =>
  capacity === 0 ? 0 : (100 * used) / capacity;

/** A map that evicts may be full at any time. */
export function capacityText(tables: readonly TableFill[]): string {
  const [fullest] = tables
    .filter(({ evicts }) => evicts !== true)
    .toSorted((a, b) => percent(b) - percent(a));
  if (fullest === undefined) return 'unknown';
  const { name, used, capacity } = fullest;
  return `fullest map ${name}, ${used} of ${capacity} entries (${percent(fullest).toFixed(0)}%)`;
}

/** Columns of `status -o wide`. */
export const fillRow = ({ name, used, capacity }: TableFill): readonly string[] => [
  name,
  `${used} of ${capacity}`,
  TABLE_TEXT[name] ?? '',
];
