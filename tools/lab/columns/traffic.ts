// SPDX-License-Identifier: Apache-2.0
// The driver's side of traffic/traffic.c: one client and its servers in one thread, so that the thread's CPU time is the cost
// of the whole way.
import { join } from 'node:path';
import { packageRoot } from '../../../src/sys/package.ts';
import { startLines } from '../lines.ts';
import type { Sandbox } from '../sandbox.ts';

/** `request`: over one connection. */
export type Call = 'udp' | 'tcp' | 'bulk' | 'request';

/** Of one turn of a column. */
export interface Sample {
  /** Datagrams both ways, connections, requests, or bytes. */
  readonly units: number;
  /** CPU time of client, kernel and server together: they are one thread. */
  readonly cpuNs: number;
  readonly lost: number;
  /** Connections for which the client had to send a packet again. */
  readonly resent: number;
}

/** With the wall-clock times of single connections and requests. */
export interface TimedSample extends Sample {
  readonly p50Ns: number;
  readonly p99Ns: number;
  readonly p999Ns: number;
}

export interface Destination {
  /** `NAMESPACE:PORT`, one of those that the program was started with. */
  readonly server: string;
  readonly address: string;
  readonly port: number;
}

export interface Awaited {
  /** `10.1.64.0/20`: the server's address of a connection that counts. */
  readonly range: string;
  /** So many connections in a row. */
  readonly count: number;
  /** Between two connections. */
  readonly periodUs: number;
  readonly timeoutMs: number;
}

export interface Reached {
  /** When the first of them began, on the clock of process.hrtime. */
  readonly reachedNs: number;
  readonly tries: number;
  /** Connections that failed. */
  readonly failed: number;
}

export interface Traffic {
  /** Does it answer, over UDP and over TCP? */
  isAnswered(to: Destination): Promise<boolean>;
  measure(call: Call, to: Destination, amount: number): Promise<TimedSample>;
  /** Connects over TCP until connections end where they are awaited; undefined after the timeout. */
  reach(to: Destination, awaited: Awaited): Promise<Reached | undefined>;
  stop(): Promise<void>;
}

export const TRAFFIC_PROGRAM = join(packageRoot(), 'build', 'tools', 'lab', 'traffic');

/**
 * @param client where the program runs and what its sockets belong to
 * @param cpu all of it runs there
 */
export async function startTraffic(
  client: Sandbox,
  servers: readonly string[],
  cpu: number,
): Promise<Traffic> {
  const program = await startLines(client, [
    ...['setpriv', '--pdeathsig', 'KILL', TRAFFIC_PROGRAM, String(cpu), client.namespace],
    ...servers,
  ]);
  const ask = (what: string, { server, address, port }: Destination, ...more: unknown[]) =>
    program.exchange([what, servers.indexOf(server), address, port, ...more].join(' '));
  return {
    isAnswered: async (to) => (await ask('try', to, 0)) === 'yes',
    measure: async (call, to, amount) => {
      const figures = (await ask(call, to, amount)).split(' ').map(Number);
      const [units = 0, cpuNs = 0, lost = 0, resent = 0, p50Ns = 0, p99Ns = 0, p999Ns = 0] =
        figures;
      return { units, cpuNs, lost, resent, p50Ns, p99Ns, p999Ns };
    },
    reach: async (to, { range, count, periodUs, timeoutMs }) => {
      const said = await ask('reach', to, count, range, periodUs, timeoutMs);
      if (said === 'never') return undefined;
      const [reachedNs = 0, tries = 0, failed = 0] = said.split(' ').map(Number);
      return { reachedNs, tries, failed };
    },
    stop: () => program.stop(),
  };
}
