// SPDX-License-Identifier: Apache-2.0
// How full the maps are, as text.
import type { TableFill } from '../../engines/snapshot.ts';

/** What the entries of each map are: none of them are Services. */
const TABLE_TEXT: Readonly<Record<string, string>> = {
  fl_frontend4: 'IPv4 frontends, and an entry for the other ports of each ClusterIP',
  fl_frontend6: 'IPv6 frontends, and an entry for the other ports of each ClusterIP',
  'backend ids': 'backends of both families',
  fl_slot_block: 'slot blocks of backend sets',
  fl_service: 'Service ports of both families',
  fl_range: 'Ranges of source addresses',
  fl_conn4: 'IPv4 connections of packets',
  fl_conn6: 'IPv6 connections of packets',
  fl_client4: 'half-open ones; when full, the one seen longest ago is evicted',
  fl_client6: 'half-open ones; when full, the one seen longest ago is evicted',
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
