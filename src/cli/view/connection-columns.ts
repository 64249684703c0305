// SPDX-License-Identifier: Apache-2.0
// The columns of `fairlead connections`. Pairs of numbers are to the backend / to the client.
import { type ConnectionRow, isStale } from '../../observe/connection-rows.ts';
import type { Column } from './table.ts';
import { bytesText, packetsText } from './traffic-text.ts';
import { ageText, sizeText } from './units.ts';

export const CONNECTION_COLUMNS: readonly Column<ConnectionRow>[] = [
  { title: 'NAMESPACE', cell: ({ namespace }) => namespace },
  { title: 'NAME', cell: ({ name }) => name },
  { title: 'PORT', cell: ({ port }) => port, spareRank: 5 },
  { title: 'PROTOCOL', cell: ({ protocol }) => protocol, spareRank: 4 },
  { title: 'CLIENT', cell: ({ client }) => client },
  { title: 'FRONTEND', cell: ({ frontend }) => frontend },
  { title: 'BACKEND', cell: ({ backend }) => backend },
  { title: 'STATE', cell: stateText },
  { title: 'AGE', cell: ({ ageSeconds }) => (ageSeconds === undefined ? '' : ageText(ageSeconds)) },
  { title: 'PACKETS', cell: packetsText },
  { title: 'BYTES', cell: bytesText, spareRank: 1 },
  { title: 'RATE', cell: rateText, spareRank: 2 },
  { title: 'ORIGIN', cell: ({ origin }) => origin, spareRank: 3 },
  { title: 'SNAT', isWide: true, cell: ({ snat }) => snat ?? '' },
  {
    title: 'IDLE',
    isWide: true,
    cell: ({ idleSeconds }) => (idleSeconds === undefined ? '' : ageText(idleSeconds)),
  },
  { title: 'BACKEND-STATE', isWide: true, cell: ({ backendState }) => backendState },
  { title: 'ENTRIES', isWide: true, cell: ({ entries }) => entries },
];

/** As kubectl adds `SchedulingDisabled` to the state of a node. */
function stateText(row: ConnectionRow): string {
  return isStale(row) ? `${row.state},stale` : row.state;
}

function rateText({ perSecond }: ConnectionRow): string {
  return perSecond === undefined ? '' : `${sizeText(perSecond.bytes)}/s`;
}
