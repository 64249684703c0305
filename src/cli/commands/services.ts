// SPDX-License-Identifier: Apache-2.0
// `fairlead services`: every frontend with its backends, desired versus programmed. Without an agent only the
// programmed state is shown, from the pinned maps.
import type { Command } from 'commander';
import { type ServiceRow, serviceRows } from '../../observe/service-rows.ts';
import { type Column, countOf } from '../view/columns.ts';
import { type Rated, rateText } from '../view/rate.ts';
import { STATE_TEXT } from '../view/state.ts';
import { bytesText, packetsText } from '../view/traffic-text.ts';
import { listCommand } from './list.ts';

/** `3/3`: programmed and desired backends; without an agent only the first. */
const countText = ({ kernel, desired, kernelState }: ServiceRow): string =>
  kernelState === 'unknown' ? String(kernel.length) : `${kernel.length}/${desired.length}`;

const COLUMNS: readonly Column<Rated<ServiceRow>>[] = [
  { title: 'NAMESPACE', cell: (row) => row.namespace },
  { title: 'NAME', cell: (row) => row.name },
  { title: 'PORT', cell: (row) => row.port, spareRank: 3 },
  { title: 'KIND', cell: (row) => row.kind, spareRank: 2 },
  { title: 'FRONTEND', cell: (row) => row.frontend },
  { title: 'FAMILY', cell: (row) => row.family, spareRank: 5 },
  { title: 'BACKENDS', cell: countText },
  { title: 'STATE', cell: (row) => STATE_TEXT[row.kernelState] },
  { title: 'CONNECTIONS', cell: (row) => countOf(row.connections), spareRank: 1 },
  { title: 'REFUSED', cell: (row) => countOf(row.refused), spareRank: 4 },
  { title: 'DROPPED', cell: (row) => countOf(row.dropped), spareRank: 6 },
  { title: 'NOTES', isRare: true, cell: (row) => row.notes?.join('; ') ?? '' },
  { title: 'SHADOW', isRare: true, cell: (row) => row.shadow ?? '' },
  { title: 'NEW/S', isWide: true, cell: (row) => rateText(row.newPerSecond) },
  { title: 'PACKETS', isWide: true, cell: packetsText },
  { title: 'BYTES', isWide: true, cell: bytesText },
  {
    title: 'AFFINITY',
    isWide: true,
    cell: affinity,
  },
  { title: 'ALGORITHM', isWide: true, cell: algorithmText },
  { title: 'FORWARDING', isWide: true, cell: forwardingText },
  { title: 'WEIGHTS', isWide: true, cell: (row) => row.weights ?? '' },
  { title: 'SOURCE-RANGES', isWide: true, cell: sourceRanges },
  { title: 'EXPOSE', isWide: true, cell: (row) => row.exposedKinds ?? '' },
  { title: 'EXPOSED-ON', isWide: true, cell: exposedOn },
  { title: 'INT-POLICY', isWide: true, cell: (row) => row.internalTrafficPolicy ?? '' },
  { title: 'EXT-POLICY', isWide: true, cell: (row) => row.externalTrafficPolicy ?? '' },
  { title: 'INT-BACKENDS', isWide: true, cell: (row) => row.kernel },
  { title: 'EXT-BACKENDS', isWide: true, cell: externalBackends },
  { title: 'TERMINATING', isWide: true, cell: (row) => row.terminating },
  { title: 'REACHED-AT', isWide: true, isRare: true, cell: (row) => row.reachedAt ?? '' },
  { title: 'SERVED-BY', isWide: true, cell: (row) => row.servedBy },
  { title: 'NOT-SERVED', isWide: true, cell: notServed },
];

/** `10800s`, `10800s (100 clients)`. */
function affinity({ affinitySeconds, affinityClients }: ServiceRow): string {
  if (affinitySeconds === 0) return '';
  const limit = affinityClients === undefined ? '' : ` (${affinityClients} clients)`;
  return `${affinitySeconds}s${limit}`;
}

/**
 * `round-robin`; `round-robin (random)` where that is what the dataplane can; `maglev/1009` with the entries of its table;
 * `random, outside maglev/1009` where clients from outside have another one.
 */
function algorithmText(row: ServiceRow): string {
  const { algorithm = '', externalAlgorithm, tableEntries, usedAlgorithm } = row;
  const size = tableEntries === undefined ? '' : `/${tableEntries}`;
  const other = usedAlgorithm === undefined ? '' : ` (${usedAlgorithm})`;
  if (externalAlgorithm === undefined) return `${algorithm}${size}${other}`;
  return `${algorithm}, outside ${externalAlgorithm}${size}${other}`;
}

/** `dsr`; `dsr (snat)` where that is what becomes of it. */
function forwardingText({ forwarding, usedForwarding }: ServiceRow): string {
  const other = usedForwarding === undefined ? '' : ` (${usedForwarding})`;
  return `${forwarding ?? ''}${other}`;
}

/** An empty list: every range that was given is invalid. */
function sourceRanges({
  sourceRanges: ranges,
  sourcePolicy,
}: ServiceRow): string | readonly string[] {
  if (ranges?.length === 0) return 'nobody';
  return sourcePolicy === undefined ? (ranges ?? '') : `all but ${ranges?.join()}`;
}

/** `role=edge`; `role=edge (not this node)`. */
function exposedOn({ exposedOn: nodes, isExposedHere }: ServiceRow): string {
  if (nodes === undefined) return '';
  const where = nodes === '' ? 'no node' : nodes;
  return isExposedHere ? where : `${where} (not this node)`;
}

/** Clients outside the node have their own set only if it differs. */
function externalBackends({
  kind,
  kernel,
  externalKernel,
}: ServiceRow): string | readonly string[] {
  if (kind === 'ClusterIP') return '';
  return externalKernel.join() === kernel.join() ? 'same' : externalKernel;
}

/** `bpf: packets from outside`, without the text of the column title. */
function notServed({ limits }: ServiceRow): string {
  return limits.map((limit) => limit.replace(/^not served by /, '')).join('; ');
}

export const servicesCommand = (): Command =>
  listCommand<ServiceRow>({
    command: 'services',
    description: 'list the addresses of Services: desired versus programmed state, and connections',
    kind: 'ServiceList',
    columns: COLUMNS,
    nameOf: ({ namespace, name }) => `${namespace}/${name}`,
    keyOf: ({ family, frontend }) => `${family} ${frontend}`,
    fromPins: ({ frontends }) => serviceRows(undefined, frontends, []),
  });
