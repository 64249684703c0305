// SPDX-License-Identifier: Apache-2.0
// For people: the network namespaces that are served as packets, from the pinned map, with what is found of their pods.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { canonicalAddress } from '../../../../lib/ip.ts';
import { findCgroup2 } from '../../../../sys/cgroup.ts';
import { netnsAddresses } from '../../../../sys/native.ts';
import { decodeScope, reasonFor, type ScopeEntry, UNKNOWN_NETNS } from '../../scope/state.ts';
import { openPinned } from '../loader/open-pinned.ts';
import { inNetns } from '../stale-sockets/namespace.ts';
import { pathsByCookie } from './look.ts';

export interface NetnsRow {
  /** Cookie of the namespace; '' = every one but the node's own. */
  readonly id: string;
  readonly reason: string;
  /** cgroup of one of its processes, else where the namespace is mounted; undefined: not visible here. */
  readonly path: string | undefined;
  readonly addresses: readonly string[];
}

export async function netnsAsPackets(bpfRoot: string): Promise<readonly NetnsRow[]> {
  const entries = [...readEntries(bpfRoot)].filter(([, { state }]) => state === 'packets');
  if (entries.every(([cookie, { found }]) => cookie === UNKNOWN_NETNS && !found.includes('host')))
    return [];
  const paths = await pathsByCookie('all');
  return Promise.all(
    entries.flatMap(([cookie, entry]) => {
      if (cookie === UNKNOWN_NETNS && !entry.found.includes('host')) return [];
      return [rowOf(cookie, entry, paths.get(cookie))];
    }),
  );
}

function readEntries(bpfRoot: string): ReadonlyMap<bigint, ScopeEntry> {
  const map = openPinned(bpfRoot, 'fl_netns');
  try {
    const { keys, values, count } = map.readAll();
    const cookies = new BigUint64Array(keys.slice().buffer);
    return new Map(
      Array.from({ length: count }, (_, index) => [
        cookies[index] ?? UNKNOWN_NETNS,
        decodeScope(values.subarray(index * 8, index * 8 + 8)),
      ]),
    );
  } finally {
    map.close();
  }
}

async function rowOf(
  cookie: bigint,
  { tgid, found }: ScopeEntry,
  path: string | undefined,
): Promise<NetnsRow> {
  const reason = reasonFor(found);
  if (cookie === UNKNOWN_NETNS) return { id: '', reason, path: undefined, addresses: [] };
  return {
    id: String(cookie),
    reason,
    path: path && (cgroupOf(path, tgid) ?? path),
    addresses: path === undefined ? [] : await addressesIn(path),
  };
}

const addressesIn = (path: string): Promise<readonly string[]> =>
  inNetns(path, async (netns) =>
    netnsAddresses(netns)
      .flatMap((address) => canonicalAddress(address) ?? [])
      .filter((address) => !address.startsWith('fe80:')),
  ).catch(() => []);

/** Of the process that asked first, if it still runs, else of any one in the namespace. */
function cgroupOf(path: string, tgid: number): string | undefined {
  const inode = statSync(path, { throwIfNoEntry: false })?.ino;
  const others = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  for (const pid of [String(tgid), ...others]) {
    try {
      if (statSync(`/proc/${pid}/ns/net`).ino !== inode) continue;
      const own = /^0::(.*)$/m.exec(readFileSync(`/proc/${pid}/cgroup`, 'utf8'))?.[1];
      return own === undefined ? undefined : join(findCgroup2() ?? '', own);
    } catch {
      // It has ended, or may not be read.
    }
  }
  return undefined;
}
