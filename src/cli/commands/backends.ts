// SPDX-License-Identifier: Apache-2.0
// `fairlead backends`: every backend of every Service port, desired versus programmed, with its share of
// the connections. Without an agent only the programmed state is shown, from the pinned maps.
import type { Command } from 'commander';
import { type BackendRow, backendRows } from '../../observe/backend-rows.ts';
import { type Column, countOf } from '../view/columns.ts';
import { type Rated, rateText } from '../view/rate.ts';
import { STATE_TEXT } from '../view/state.ts';
import { listCommand } from './list.ts';

const localText = ({ isLocal }: BackendRow): string =>
  isLocal === undefined ? '' : isLocal ? 'yes' : 'no';

const COLUMNS: readonly Column<Rated<BackendRow>>[] = [
  { title: 'NAMESPACE', cell: (row) => row.namespace },
  { title: 'NAME', cell: (row) => row.name },
  { title: 'PORT', cell: (row) => row.port, spareRank: 2 },
  { title: 'BACKEND', cell: (row) => row.backend },
  { title: 'ENDPOINT', cell: (row) => row.state, spareRank: 1 },
  { title: 'STATE', cell: (row) => STATE_TEXT[row.kernelState] },
  { title: 'CONNECTIONS', cell: (row) => countOf(row.connections) },
  { title: 'OPEN', cell: (row) => countOf(row.open) },
  { title: 'FLOWS', isWide: true, cell: (row) => countOf(row.flows) },
  { title: 'NEW/S', isWide: true, cell: (row) => rateText(row.newPerSecond) },
  { title: 'LOCAL', isWide: true, cell: (row) => localText(row) },
  { title: 'DATAPLANE', isWide: true, cell: (row) => row.dataplane },
  { title: 'ID', isWide: true, cell: (row) => countOf(row.id) },
  { title: 'GENERATION', isWide: true, cell: (row) => countOf(row.generation) },
];

export const backendsCommand = (): Command =>
  listCommand<BackendRow>({
    command: 'backends',
    description: 'list the backends of Services: desired versus programmed state, and connections',
    kind: 'BackendList',
    columns: COLUMNS,
    nameOf: ({ backend }) => backend,
    keyOf: ({ namespace, name, port, backend }) => `${namespace}/${name}:${port} ${backend}`,
    fromPins: ({ backends }) => backendRows(undefined, backends),
  });
