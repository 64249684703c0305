// SPDX-License-Identifier: Apache-2.0
// Lists connections once or, with --watch, again and again, with rates since the previous reading.
import type { Connections } from '../../engines/connections.ts';
import {
  type ConnectionFilter,
  type ConnectionList,
  type ConnectionRow,
  listConnections,
  withRates,
} from '../../observe/connection-rows.ts';
import { machine, type Shown, show, terminalWidth } from '../output.ts';
import { placeText } from '../selection.ts';
import { table } from '../view/columns.ts';
import { CONNECTION_COLUMNS } from '../view/connection-columns.ts';
import { type ConnectionOptions, withoutPackets } from './asked.ts';

const WATCH_INTERVAL_MS = 1_000;

export async function list(
  opened: Connections,
  matches: ConnectionFilter['matches'],
  options: ConnectionOptions,
): Promise<void> {
  const { output, watch, origin, limit, state: states } = options;
  let before: { readonly rows: readonly ConnectionRow[]; readonly atSeconds: number } | undefined;
  await show(
    async () => {
      const atSeconds = monotonicSeconds();
      const filter = { matches, states, limit };
      const listed = listConnections(opened.all(origin), filter, atSeconds);
      const seconds = atSeconds - (before?.atSeconds ?? atSeconds);
      const rows = withRates(listed.rows, before?.rows ?? [], seconds);
      before = { rows, atSeconds };
      return shownOf({ ...listed, rows }, opened, options);
    },
    { isWatching: watch, format: output, intervalMs: WATCH_INTERVAL_MS },
  );
}

/** CLOCK_MONOTONIC, as the packet programs note it. */
const monotonicSeconds = (): number => Number(process.hrtime.bigint()) / 1e9;

async function shownOf(
  { rows, leftOut }: ConnectionList,
  { hasPackets }: Connections,
  options: ConnectionOptions,
): Promise<Shown> {
  const { output, headers, namespace, allNamespaces, bpfRoot, origin } = options;
  const notes = [
    ...(rows.length === 0 ? [`No connections found${placeText(options)}.`] : []),
    ...(hasPackets || origin === 'socket'
      ? []
      : [`(only connections of sockets are listed: ${withoutPackets(bpfRoot)})`]),
    ...(leftOut === 0
      ? []
      : [`(${leftOut} more connections were left out: use filters or --limit)`]),
  ];
  const shown = (text: string, more: readonly string[] = []): Shown => {
    const note = [...notes, ...more].join('\n');
    return note === '' ? { text } : { text, note };
  };
  if (output.kind === 'name') return shown(rows.map(nameOf).join('\n'));
  if (output.kind !== 'table' && output.kind !== 'wide') {
    const list = { apiVersion: 'fairlead.io/v1', kind: 'ConnectionList', items: rows };
    return shown(await machine(list, output));
  }
  if (rows.length === 0) return shown('');
  const isOneNamespace = namespace !== undefined && !allNamespaces;
  const { text, hidden } = table(
    rows,
    CONNECTION_COLUMNS.filter(({ title }) => !isOneNamespace || title !== 'NAMESPACE'),
    { isWide: output.kind === 'wide', hasHeaders: headers, width: terminalWidth() },
  );
  if (hidden.length === 0) return shown(text);
  return shown(text, [`(columns hidden to fit the terminal: ${hidden.join(', ')}; use -o wide)`]);
}

/** `TCP/203.0.113.9:41234->192.0.2.10:80`. */
const nameOf = ({ protocol, client, frontend }: ConnectionRow): string =>
  `${protocol}/${client}->${frontend}`;
