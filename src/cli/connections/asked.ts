// SPDX-License-Identifier: Apache-2.0
// Which connections `fairlead connections` is asked for: by Service, client, backend, state and origin.
import type { Connection, ConnectionOrigin, Connections } from '../../engines/connections.ts';
import { FairleadError } from '../../errors.ts';
import { labelsOf, type Selector } from '../../model/selector.ts';
import type { ServiceRow } from '../../observe/service-rows.ts';
import { askAgent, READING_TIMEOUT_MS } from '../../server/admin-socket.ts';
import { isInScope, isNamed, type SelectionOptions } from '../selection.ts';
import type { AddressFilter } from '../view/address-filter.ts';

export interface ConnectionOptions extends SelectionOptions {
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

/** Throws NOT_FOUND if what was asked for cannot be there. */
export function checkOrigin(
  { hasPackets }: Connections,
  { origin, bpfRoot, ...asked }: ConnectionOptions,
): void {
  if (hasPackets || (origin !== 'packet' && !asked.dropStale)) return;
  throw new FairleadError(
    'NOT_FOUND',
    `${withoutPackets(bpfRoot)}, so there are no connections of packets`,
  );
}

export const withoutPackets = (bpfRoot: string): string =>
  `the packet layer is not loaded: no table of connections is pinned below ${bpfRoot}`;

/** The Services with these labels, as NAMESPACE/NAME; undefined: all. */
async function selectedServices({
  runDir,
  selector,
}: ConnectionOptions): Promise<ReadonlySet<string> | undefined> {
  if (selector === undefined) return undefined;
  const rows = (await askAgent(runDir, '/v1/services', READING_TIMEOUT_MS).catch(
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

/** What the names, the selector and the filters mean. Throws NOT_RUNNING if labels are needed and no agent runs. */
export async function connectionFilter(
  names: readonly string[],
  options: ConnectionOptions,
): Promise<(connection: Connection) => boolean> {
  const { client, backend } = options;
  const services = await selectedServices(options);
  const matchesScope = isInScope(options);
  const isAnyPort =
    names.length === 0 &&
    services === undefined &&
    (options.namespace === undefined || options.allNamespaces);
  const matchesPort = ({ port }: Connection): boolean => {
    if (port === undefined || isAnyPort) return isAnyPort;
    if (!matchesScope(port)) return false;
    if (services !== undefined && !services.has(`${port.namespace}/${port.name}`)) return false;
    return names.length === 0 || names.some((name) => isNamed(port, name));
  };
  return (connection) =>
    matchesPort(connection) &&
    (client === undefined || client(connection.client)) &&
    (backend === undefined || backend(connection.backend));
}
