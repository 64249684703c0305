// SPDX-License-Identifier: Apache-2.0
// A column while it is measured: its network, its API server, its traffic, and its proxy, once that has started.

import type { ObjectChange } from '../../../src/model/types.ts';
import type { StubApi } from '../../lab/api/stub.ts';
import { NODE_ADDRESS, PODS } from '../../lab/columns/network.ts';
import type { ColumnSite, Site } from '../../lab/columns/site.ts';
import { type Destination, startTraffic, type Traffic } from '../../lab/columns/traffic.ts';
import type { ProxyProcess } from '../proxies/process.ts';
import { type ColumnProxy, type ProxySettings, proxyOf } from '../proxies/start.ts';
import type { ColumnName } from '../report/types.ts';
import { ADDRESSES, type Half, measuredObjects, NODE_PORT, SERVER_PORTS } from '../site/objects.ts';

export type From = keyof typeof SERVER_PORTS;

export interface Column {
  readonly name: ColumnName;
  readonly api: StubApi;
  readonly traffic: Readonly<Record<From, Traffic>>;
  /** As traffic.c knows it: `NAMESPACE:PORT`. */
  serverAt(port: number): string;
  /** undefined for `none`. */
  readonly proxy: ColumnProxy | undefined;
  process: ProxyProcess | undefined;
  /** Where the endpoints are that its objects name now. */
  probeHalf: Half;
  rollHalf: Half;
}

/** Objects that are told to the stub at once. */
const CHUNK = 4_000;

export async function openColumn(
  site: Site<ColumnName>,
  place: ColumnSite<ColumnName>,
  settings: ProxySettings & { readonly cpu: number },
): Promise<Column> {
  const api = await site.startApi(place);
  await api.change(measuredObjects());
  const serverAt = (port: number): string => `${place.namespaceOf('farpod')}:${port}`;
  const startFrom = (from: From): Promise<Traffic> => {
    const client = from === 'inside' ? place.inside : place.client;
    return startTraffic(client, Object.values(SERVER_PORTS[from]).map(serverAt), settings.cpu);
  };
  return {
    ...{ name: place.name, api, serverAt },
    traffic: { inside: await startFrom('inside'), outside: await startFrom('outside') },
    ...{ proxy: proxyOf(place, settings), process: undefined, probeHalf: 0, rollHalf: 0 },
  };
}

export async function changeObjects(
  { api }: Column,
  changes: readonly ObjectChange[],
): Promise<void> {
  for (let at = 0; at < changes.length; at += CHUNK) {
    await api.change(changes.slice(at, at + CHUNK));
  }
}

export async function stopColumn({ process, traffic }: Column): Promise<void> {
  await Promise.all([process?.stop(), traffic.inside.stop(), traffic.outside.stop()]);
}

/** Of the measured traffic: the endpoint itself where no proxy leads to it. */
export function destinationOf({ name, serverAt }: Column, from: From): Destination {
  const { direct, translated } = SERVER_PORTS[from];
  if (name === 'none') return { server: serverAt(direct), address: PODS.remote, port: direct };
  const address = from === 'inside' ? ADDRESSES.inside : NODE_ADDRESS;
  return { server: serverAt(translated), address, port: from === 'inside' ? 80 : NODE_PORT };
}

/** A ClusterIP whose endpoints are in the far pod's range. */
export const clusterIpOf = (
  { serverAt }: Column,
  service: 'probe' | 'roll' | 'last',
): Destination => ({
  server: serverAt(SERVER_PORTS.inside.translated),
  address: ADDRESSES[service],
  port: 80,
});
