// SPDX-License-Identifier: Apache-2.0
// The traffic of one column: from a client outside the cluster to the pods of both nodes.
import { NODE_ADDRESS, PODS } from '../../../tools/lab/columns/network.ts';
import type { ColumnSite } from '../../../tools/lab/columns/site.ts';
import {
  type Destination,
  startTraffic as startIn,
  type Traffic,
} from '../../../tools/lab/columns/traffic.ts';
import { NODE_PORTS } from './objects.ts';

export type Backend = keyof typeof PODS;
export type PacketCall = 'udp' | 'tcp' | 'bulk';

const PORTS = { translated: 8080, direct: 8081 } as const;

const serverOf = (site: ColumnSite, backend: Backend, port: number): string =>
  `${site.namespaceOf(backend === 'local' ? 'pod' : 'farpod')}:${port}`;

/**
 * The pod itself, or the NodePort that leads to it. Pods answer at a second port, which no Service leads to: for a NAT, a
 * connection from the same port of the client to the same port of the pod would be the same.
 */
export function destination(site: ColumnSite, backend: Backend, isDirect: boolean): Destination {
  const { direct, translated } = PORTS;
  return isDirect
    ? { server: serverOf(site, backend, direct), address: PODS[backend], port: direct }
    : {
        server: serverOf(site, backend, translated),
        address: NODE_ADDRESS,
        port: NODE_PORTS[backend],
      };
}

/** @param cpu all of it runs there */
export function startTraffic(site: ColumnSite, cpu: number): Promise<Traffic> {
  const servers = Object.values(PORTS).flatMap((port) =>
    (['local', 'remote'] as const).map((backend) => serverOf(site, backend, port)),
  );
  return startIn(site.client, servers, cpu);
}
