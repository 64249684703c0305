// SPDX-License-Identifier: Apache-2.0
// The columns of `fairlead connections`. Pairs of numbers are to the backend / to the client.
import { type ConnectionRow, isStale } from '../../observe/connection-rows.ts';
import type { Column } from './columns.ts';
import { bytesText, packetsText } from './traffic-text.ts';
import { ageText, sizeText } from './units.ts';

export const CONNECTION_COLUMNS: readonly Column<ConnectionRow>[] = [
  { title: 'NAMESPACE', cell: ({ namespace }) => namespace, spareRank: 1 },
  { title: 'NAME', cell: ({ name }) => name },
  { title: 'PORT', cell: ({ port }) => port, spareRank: 7 },
  { title: 'CLIENT', cell: ({ client }) => client },
  { title: 'FRONTEND', cell: ({ frontend, protocol }) => `${frontend}/${protocol}` },
  { title: 'BACKEND', cell: ({ backend }) => backend },
  { title: 'STATE', cell: stateText },
  {
    title: 'AGE',
    cell: ({ ageSeconds }) => (ageSeconds === undefined ? '' : ageText(ageSeconds)),
    spareRank: 2,
  },
  { title: 'PACKETS', cell: packetsText, spareRank: 3 },
  { title: 'BYTES', cell: bytesText, spareRank: 4 },
  { title: 'RATE', cell: rateText, spareRank: 5 },
  { title: 'ORIGIN', cell: ({ origin }) => origin, spareRank: 6 },
  {
    title: 'SNAT',
    isWide: true,
    cell: ({ snat, returnsDirectly }) => (returnsDirectly ? 'direct' : (snat ?? '')),
  },
  {
    title: 'IDLE',
    isWide: true,
    cell: ({ idleSeconds }) => (idleSeconds === undefined ? '' : ageText(idleSeconds)),
  },
  { title: 'BACKEND-STATE', isWide: true, cell: ({ backendState }) => backendState },
];

/** As kubectl adds `SchedulingDisabled` to the state of a node. */
function stateText(row: ConnectionRow): string {
  return isStale(row) ? `${row.state},stale` : row.state;
}

function rateText({ perSecond }: ConnectionRow): string {
  return perSecond === undefined ? '' : `${sizeText(perSecond.bytes)}/s`;
}
