// SPDX-License-Identifier: Apache-2.0
// `fairlead connections`: the connections that are translated, from the pinned maps. The agent is asked for labels
// only: reading a million flows would keep it from its work.
import { Command, InvalidArgumentError, Option } from 'commander';
import type { Connection, ConnectionOrigin, Connections } from '../../dataplane/connections.ts';
import { FairleadError } from '../../errors.ts';
import {
  type ConnectionFilter,
  type ConnectionList,
  type ConnectionRow,
  listConnections,
  STATE_FILTERS,
  withRates,
} from '../../observe/connection-rows.ts';
import type { ServiceRow } from '../../observe/service-rows.ts';
import { askAgent } from '../../server/admin-socket.ts';
import { connectionsBelow } from '../dataplanes.ts';
import { dropStale } from '../drop-stale.ts';
import { addBpfRootOption, addRunDirOption } from '../flags.ts';
import { machine, type Shown, show, terminalWidth } from '../output.ts';
import {
  addSelectionOptions,
  checkNames,
  isInScope,
  isNamed,
  placeText,
  type SelectionOptions,
} from '../selection.ts';
import { type AddressFilter, parseAddressFilter } from '../view/address-filter.ts';
import { CONNECTION_COLUMNS } from '../view/connection-columns.ts';
import { labelsOf, type Selector } from '../view/selector.ts';
import { table } from '../view/table.ts';

interface ConnectionOptions extends SelectionOptions {
  readonly runDir: string;
  readonly bpfRoot: string;
  readonly client?: AddressFilter;
  readonly backend?: AddressFilter;
  readonly state?: readonly string[];
  readonly origin?: ConnectionOrigin;
  readonly limit: number;
  readonly dropStale: boolean;
  readonly dryRun: boolean;
}

const DEFAULT_LIMIT = 1000;
const WATCH_INTERVAL_MS = 1_000;

type OpenConnections = (bpfRoot: string) => Connections;

export function connectionsCommand(open: OpenConnections = connectionsBelow): Command {
  const command = addSelectionOptions(
    new Command('connections').description(
      'list the connections that are translated, with state, packets and bytes',
    ),
  )
    .option('--client <address>', 'client address, address:port or CIDR range', parseAddressFilter)
    .option(
      '--backend <address>',
      'backend address, address:port or CIDR range',
      parseAddressFilter,
    )
    .option(
      '--state <state,...>',
      `only these states: ${STATE_FILTERS.join(', ')} (its backend is gone)`,
      parseStates,
    )
    .addOption(
      new Option('--origin <origin>', 'only connections of packets, or of sockets').choices([
        'packet',
        'socket',
      ]),
    )
    .option('--limit <count>', 'list at most this many', parseLimit, DEFAULT_LIMIT)
    .addOption(
      new Option('--drop-stale', 'delete flows whose backend is gone, and print each')
        .default(false)
        .conflicts(['watch', 'state']),
    )
    .option('--dry-run', 'with --drop-stale: only print what would be deleted', false);
  return addBpfRootOption(addRunDirOption(command)).action(
    async (names: readonly string[], options: ConnectionOptions) => {
      const opened = open(options.bpfRoot);
      try {
        await listOrDrop(opened, names, options);
      } finally {
        opened.close();
      }
    },
  );
}

function parseStates(text: string): readonly string[] {
  const states = text.split(',').map((state) => state.trim().toLowerCase());
  for (const state of states) {
    if (STATE_FILTERS.some((known) => known === state)) continue;
    throw new InvalidArgumentError(`Allowed states are ${STATE_FILTERS.join(', ')}.`);
  }
  return states;
}

function parseLimit(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError(`"${text}" is not a number of connections from 1 on.`);
}

async function listOrDrop(
  opened: Connections,
  names: readonly string[],
  options: ConnectionOptions,
): Promise<void> {
  if (options.dryRun && !options.dropStale) {
    throw new FairleadError('BAD_OPTION', '--dry-run needs --drop-stale');
  }
  checkOrigin(opened, options);
  checkNames(names, opened.ports().filter(isInScope(options)), options);
  const isMeant = meantBy(names, options, await selectedServices(options));
  if (options.dropStale) dropStale(opened, isMeant, options);
  else await list(opened, isMeant, options);
}

/** Throws NOT_FOUND if what was asked for cannot be there. */
function checkOrigin(
  { hasPackets }: Connections,
  { origin, bpfRoot, ...asked }: ConnectionOptions,
): void {
  if (hasPackets || (origin !== 'packet' && !asked.dropStale)) return;
  throw new FairleadError('NOT_FOUND', `${withoutPackets(bpfRoot)}, so there are no flows`);
}

const withoutPackets = (bpfRoot: string): string =>
  `the packet layer is not loaded: no flow maps are pinned below ${bpfRoot}`;

/** The Services with these labels, as NAMESPACE/NAME; undefined: all. */
async function selectedServices({
  runDir,
  selector,
}: ConnectionOptions): Promise<ReadonlySet<string> | undefined> {
  if (selector === undefined) return undefined;
  const rows = (await askAgent(runDir, '/v1/services').catch(
    labelsUnknown,
  )) as readonly ServiceRow[];
  return servicesWith(rows, selector);
}

function labelsUnknown(error: unknown): never {
  if (!(error instanceof FairleadError) || error.code !== 'NOT_RUNNING') throw error;
  const message = `${error.message}; labels are known only to a running agent`;
  throw new FairleadError('NOT_RUNNING', message);
}

const servicesWith = (rows: readonly ServiceRow[], selector: Selector): ReadonlySet<string> =>
  new Set(
    rows
      .filter(({ labels }) => selector(labelsOf(labels)))
      .map(({ namespace, name }) => `${namespace}/${name}`),
  );

function meantBy(
  names: readonly string[],
  options: ConnectionOptions,
  services: ReadonlySet<string> | undefined,
): (connection: Connection) => boolean {
  const { client, backend } = options;
  const isMeantScope = isInScope(options);
  const isAnyPort =
    names.length === 0 &&
    services === undefined &&
    (options.namespace === undefined || options.allNamespaces);
  const isMeantPort = ({ port }: Connection): boolean => {
    if (port === undefined || isAnyPort) return isAnyPort;
    if (!isMeantScope(port)) return false;
    if (services !== undefined && !services.has(`${port.namespace}/${port.name}`)) return false;
    return names.length === 0 || names.some((name) => isNamed(port, name));
  };
  return (connection) =>
    isMeantPort(connection) &&
    (client === undefined || client(connection.client)) &&
    (backend === undefined || backend(connection.backend));
}

async function list(
  opened: Connections,
  isMeant: ConnectionFilter['isMeant'],
  options: ConnectionOptions,
): Promise<void> {
  const { output, watch, origin, limit, state: states } = options;
  let before: { readonly rows: readonly ConnectionRow[]; readonly atSeconds: number } | undefined;
  await show(
    async () => {
      const atSeconds = monotonicSeconds();
      const filter = { isMeant, states, limit };
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
