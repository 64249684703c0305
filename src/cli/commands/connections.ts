// SPDX-License-Identifier: Apache-2.0
// `fairlead connections`: the connections that are translated, from the pinned maps. The agent is asked for labels
// only: reading a million connections would keep it from its work.
import { Command, InvalidArgumentError, Option } from 'commander';
import type { Connections } from '../../engines/connections.ts';
import { FairleadError } from '../../errors.ts';
import { connectionsBelow } from '../../instance/dataplanes.ts';
import { STATE_FILTERS } from '../../observe/connection-rows.ts';
import { type ConnectionOptions, checkOrigin, connectionFilter } from '../connections/asked.ts';
import { dropStale } from '../connections/drop-stale.ts';
import { list } from '../connections/list.ts';
import { addBpfRootOption, addRunDirOption } from '../flags.ts';
import { addSelectionOptions, checkNames, isInScope } from '../selection.ts';
import { fromMaps } from '../served-by-rules.ts';
import { parseAddressFilter } from '../view/address-filter.ts';

const DEFAULT_LIMIT = 1000;

const KEPT_BY_CONNTRACK =
  ': their connections are kept by conntrack, and `conntrack -L --dst-nat` lists them';

type OpenConnections = (bpfRoot: string) => Connections;

export function connectionsCommand(open: OpenConnections = connectionsBelow): Command {
  const command = addSelectionOptions(
    new Command('connections').description(
      'list the connections that eBPF translates, with state, packets and bytes: to the backend / to the client',
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
      new Option('--drop-stale', 'end connections whose backend is gone, and print each')
        .default(false)
        .conflicts(['watch', 'state']),
    )
    .option('--dry-run', 'with --drop-stale: only print what would be deleted', false);
  return addBpfRootOption(addRunDirOption(command)).action(
    async (names: readonly string[], options: ConnectionOptions) => {
      const opened = await fromMaps(options, KEPT_BY_CONNTRACK, () => open(options.bpfRoot));
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
  const matches = await connectionFilter(names, options);
  if (options.dropStale) dropStale(opened, matches, options);
  else await list(opened, matches, options);
}
