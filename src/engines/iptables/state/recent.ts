// SPDX-License-Identifier: Apache-2.0
// The lists of the kernel module xt_recent, of which each endpoint has one with the name of its chain. Pure.
//   parseRecent('src=203.0.113.9 ttl: 64 last_seen: 4295000250 oldest_pkt: 1 4295000250')
//     -> [{ client: '203.0.113.9', lastSeen: 4295000250 }]
import { canonicalAddress, familyOf } from '../../../lib/ip.ts';
import type { AffinityPort, Remembered } from '../../predecessor.ts';
import { type PortId, portText } from '../../snapshot.ts';
import { endpointChain } from '../rules/names.ts';

export interface RecentEntry {
  readonly client: string;
  /** In jiffies. */
  readonly lastSeen: number;
}

export function parseRecent(text: string): readonly RecentEntry[] {
  return [...text.matchAll(/^src=(\S+) .*?last_seen: (\d+) /gm)].flatMap(
    ([, source = '', seen = '']) => {
      const client = canonicalAddress(source);
      return client === undefined ? [] : [{ client, lastSeen: Number(seen) }];
    },
  );
}

/** What the kernels that distributions build have. */
const KNOWN_HZ = [100, 250, 300, 1000];
/** Jiffies begin 300 s before an unsigned 32-bit number overflows, so that kernel code meets that early (INITIAL_JIFFIES). */
const FIRST_SECONDS = 300;

/** How many jiffies a second has, by how many there are now. */
export function hzOf(jiffies: number, uptimeSeconds: number): number {
  const error = (hz: number): number =>
    Math.abs(2 ** 32 + hz * (uptimeSeconds - FIRST_SECONDS) - jiffies);
  return KNOWN_HZ.reduce((best, hz) => (error(hz) < error(best) ? hz : best));
}

export interface NowJiffies {
  readonly jiffies: number;
  readonly hz: number;
}

/** @param textOf the list of that name; undefined: there is none */
export const rememberedInLists = (
  ports: readonly AffinityPort[],
  textOf: (list: string) => string | undefined,
  { jiffies, hz }: NowJiffies,
): readonly Remembered[] =>
  ports.flatMap(({ port, seconds, backends }) =>
    backends.flatMap((backend) =>
      parseRecent(textOf(listOf(port, backend)) ?? '')
        .filter(({ client }) => familyOf(client) === port.family)
        .map(({ client, lastSeen }) => ({
          ...{ port, backend, client },
          ageSeconds: Math.max(0, (jiffies - lastSeen) / hz),
        }))
        .filter(({ ageSeconds }) => ageSeconds < seconds),
    ),
  );

/**
 * The clients of each list as it is to be written: the one seen last is added last, as the first to go is the oldest. A client
 * whose sockets and packets have different backends is in the list of the newer one.
 */
export function clientsByList(
  all: readonly Remembered[],
  maxClients: number,
): ReadonlyMap<string, readonly string[]> {
  const newest = new Map<string, Remembered>();
  for (const one of all.toSorted((a, b) => b.ageSeconds - a.ageSeconds)) {
    const key = `${portText(one.port)} ${one.client}`;
    newest.delete(key);
    newest.set(key, one);
  }
  const lists = new Map<string, string[]>();
  for (const { port, backend, client } of newest.values()) {
    const list = listOf(port, backend);
    const clients = lists.get(list) ?? [];
    clients.push(client);
    lists.set(list, clients);
  }
  return new Map([...lists].map(([list, clients]) => [list, clients.slice(-maxClients)]));
}

export function listOf(port: PortId, backend: string): string {
  const colon = backend.lastIndexOf(':');
  const address = backend.slice(0, colon).replace(/^\[(.*)\]$/, '$1');
  return endpointChain(port, { address, port: Number(backend.slice(colon + 1)) });
}
