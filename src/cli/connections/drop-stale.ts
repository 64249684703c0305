// SPDX-License-Identifier: Apache-2.0
// `fairlead connections --drop-stale`: ends the connections whose backend is gone. The client's next packet then
// begins another one: UDP gets another backend, TCP a RST, upon which its client connects again.
import type { Connection, Connections } from '../../engines/connections.ts';
import { isStale } from '../../observe/connection-rows.ts';
import { print } from '../output.ts';

export function dropStale(
  connections: Connections,
  matches: (connection: Connection) => boolean,
  { dryRun }: { readonly dryRun: boolean },
): void {
  const verb = dryRun ? 'would drop' : 'dropped';
  let count = 0;
  for (const connection of connections.all('packet')) {
    if (!isStale(connection) || !matches(connection)) continue;
    if (!dryRun && !connection.dropStale()) continue;
    const { protocol, client, frontend, backend } = connection;
    print(`${verb} ${protocol} ${client} -> ${frontend}, backend ${backend}`);
    count += 1;
  }
  const noun = count === 1 ? 'connection' : 'connections';
  print(count === 0 ? 'no connection has a backend that is gone' : `${verb} ${count} ${noun}`);
}
