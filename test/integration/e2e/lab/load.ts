// SPDX-License-Identifier: Apache-2.0
// Load on Services from pods, from a process of a node and from outside; what failed is counted.

import { until } from '../../../support/until.ts';
import { startProgram, untilReady } from '../../cluster/programs/program.ts';
import type { RealCluster } from '../nodes/nodes.ts';
import { callFrom } from '../nodes/use.ts';
import { CONTROL_PORT } from './pods.ts';

/** Fields as the program reads them. */
export interface Stream {
  readonly name: string;
  /** held: one connection for all; held-dns, held-udp: one connected socket. The others have one for each request. */
  readonly kind: 'http' | 'held' | 'udp' | 'held-udp' | 'dns' | 'held-dns';
  readonly target: string;
  /** A name that a DNS server is asked for. */
  readonly asks?: string;
  readonly perSecond: number;
}

export interface Count {
  readonly name: string;
  readonly requests: number;
  readonly failed: number;
  readonly longestMs: number;
  /** By time and message. */
  readonly errors: Readonly<Record<string, number>>;
}

/** A program that takes streams, at an address of its own. */
export interface Client {
  readonly name: string;
  readonly url: string;
}

/** Streams by the name of their client. */
export type Load = Readonly<Record<string, readonly Stream[]>>;

/** Before and after what happens under load. */
const SECONDS_SERVED = 1.5;
const FEWEST_REQUESTS = 2;

interface Counted {
  readonly Requests: number;
  readonly Failed: number;
  readonly LongestMs: number;
  readonly Errors: Readonly<Record<string, number>>;
}

export async function startOutside(cluster: RealCluster): Promise<Client> {
  const { plane, outside, programs } = cluster;
  const argv = [programs.pod, 'load', `:${CONTROL_PORT}`];
  const program = startProgram(plane.sandbox('outside', outside), 'the client outside', argv);
  const url = `http://192.168.78.${cluster.nodes.length + 1}:${CONTROL_PORT}`;
  await untilReady(program, async () => {
    await callFrom(cluster, plane.namespace, `${url}/start`, '[]');
    return true;
  });
  return { name: 'outside', url };
}

/** The pod's address; waits until it takes orders. */
export async function podClient(cluster: RealCluster, name: string): Promise<Client> {
  const { plane } = cluster;
  const path = 'jsonpath={.status.podIP}';
  const url = await until(
    async () => {
      const ip = await plane.kubectl(['get', 'pod', name, '-o', path]);
      const at = `http://${ip}:${CONTROL_PORT}`;
      await callFrom(cluster, plane.namespace, `${at}/start`, '[]');
      return at;
    },
    { what: `client ${name}`, timeoutMs: 90_000 },
  );
  return { name, url };
}

/** Runs `action` while all streams are served, and returns what they counted. */
export async function underLoad(
  cluster: RealCluster,
  clients: readonly Client[],
  load: Load,
  action: () => Promise<void>,
): Promise<Count[]> {
  const used = clients.filter(({ name }) => load[name] !== undefined);
  const ask = async (client: Client, path: string, body = ''): Promise<Record<string, Counted>> => {
    const text = await callFrom(cluster, cluster.plane.namespace, client.url + path, body);
    return text === '' ? {} : JSON.parse(text);
  };
  const untilServed = (): Promise<unknown> =>
    Promise.all(used.map((client) => untilMore(client, load[client.name] ?? [], ask)));
  await Promise.all(used.map((client) => ask(client, '/start', JSON.stringify(load[client.name]))));
  const stop = (): Promise<Record<string, Counted>[]> =>
    Promise.all(used.map((client) => ask(client, '/stop')));
  try {
    await untilServed();
    await action();
    await untilServed();
  } catch (error) {
    await stop(); // Or the streams would go on beside those of the next scenario.
    throw error;
  }
  const counts = await stop();
  return counts.flatMap((byName, at) =>
    Object.entries(byName).map(([name, count]) => countOf(`${used[at]?.name}: ${name}`, count)),
  );
}

type Ask = (client: Client, path: string) => Promise<Record<string, Counted>>;

async function untilMore(client: Client, streams: readonly Stream[], ask: Ask): Promise<void> {
  const before = await ask(client, '/counts');
  const isMore = async (): Promise<boolean> => {
    const now = await ask(client, '/counts');
    return streams.every(({ name, perSecond }) => {
      const requests = (now[name]?.Requests ?? 0) - (before[name]?.Requests ?? 0);
      return requests >= Math.max(FEWEST_REQUESTS, SECONDS_SERVED * perSecond);
    });
  };
  await until(isMore, { what: `${client.name} makes requests`, timeoutMs: 120_000 });
}

const countOf = (name: string, count: Counted): Count => ({
  name,
  requests: count.Requests,
  failed: count.Failed,
  longestMs: count.LongestMs,
  errors: count.Errors,
});
