// SPDX-License-Identifier: Apache-2.0
// The driver's side of traffic.c, one for each column.
import { join } from 'node:path';
import { packageRoot } from '../../../src/sys/package.ts';
import { startLines } from '../../../test/support/fixture/programs/lines.ts';
import type { Sample } from '../report/figures.ts';
import { NODE_ADDRESS, PODS } from './network.ts';
import { NODE_PORTS } from './objects.ts';
import type { ColumnSite } from './site.ts';

export type Backend = keyof typeof PODS;
export type Call = 'udp' | 'tcp' | 'bulk';

export interface Destination {
  readonly server: (typeof SERVERS)[number];
  readonly address: string;
  readonly port: number;
}

/**
 * Pods answer at a second port, which no Service leads to: for a NAT, a connection from the same port of the client to
 * the same port of the pod would be the same.
 */
const SERVERS = ['pod:8080', 'farpod:8080', 'pod:8081', 'farpod:8081'] as const;

export interface Traffic {
  /** Does it answer, over UDP and over TCP? */
  isAnswered(to: Destination): Promise<boolean>;
  measure(call: Call, to: Destination, amount: number): Promise<Sample>;
  stop(): Promise<void>;
}

/** The pod itself, or the NodePort that leads to it. */
export function destination(backend: Backend, isDirect: boolean): Destination {
  const pod = backend === 'local' ? 'pod' : 'farpod';
  return isDirect
    ? { server: `${pod}:8081`, address: PODS[backend], port: 8081 }
    : { server: `${pod}:8080`, address: NODE_ADDRESS, port: NODE_PORTS[backend] };
}

/** @param cpu all of it runs there */
export async function startTraffic(site: ColumnSite, cpu: number): Promise<Traffic> {
  const program = await startLines(site.client, [
    ...['setpriv', '--pdeathsig', 'KILL', join(packageRoot(), 'build', 'bench', 'traffic')],
    ...[String(cpu), site.namespaceOf('client')],
    ...SERVERS.map((server) => {
      const [member, port] = server.split(':') as ['pod' | 'farpod', string];
      return `${site.namespaceOf(member)}:${port}`;
    }),
  ]);
  const ask = (what: string, { server, address, port }: Destination, amount: number) =>
    program.exchange(`${what} ${SERVERS.indexOf(server)} ${address} ${port} ${amount}`);
  return {
    isAnswered: async (to) => (await ask('try', to, 0)) === 'yes',
    measure: async (call, to, amount) => {
      const figures = (await ask(call, to, amount)).split(' ').map(Number);
      const [units = 0, cpuNs = 0, lost = 0, resent = 0] = figures;
      return { units, cpuNs, lost, resent };
    },
    stop: () => program.stop(),
  };
}
