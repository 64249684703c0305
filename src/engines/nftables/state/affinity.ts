// SPDX-License-Identifier: Apache-2.0
// The sets in which a table remembers the clients of each endpoint, in fairlead's table and in kube-proxy's: their names
// are the same. An element's time to live tells when its client was seen last. Pure.
import { hostPort } from '../../../lib/address-bytes.ts';
import type { Family, Protocol } from '../../../model/types.ts';
import type { AffinityPort, Remembered } from '../../predecessor.ts';
import { type PortId, portText } from '../../snapshot.ts';
import { endpointNames, NFT_FAMILY, portOfChain } from '../rules/names.ts';

/** Of one table. */
export interface AffinitySets {
  readonly family: Family;
  readonly ports: readonly AffinityPort[];
  readonly remembered: readonly Remembered[];
}

interface NftSet {
  readonly table: string;
  readonly name: string;
  readonly timeout?: number;
  readonly elem?: readonly (string | { readonly elem?: NftElement })[];
}

interface NftElement {
  readonly val?: unknown;
  /** In seconds, rounded down. */
  readonly expires?: number;
}

interface EndpointSet {
  readonly port: PortId;
  readonly backend: string;
  readonly set: NftSet;
}

/** @param json of `nft --json list sets ip` */
export function affinitySets(json: string, family: Family, table: string): AffinitySets {
  const { nftables } = JSON.parse(json) as { readonly nftables: readonly { set?: NftSet }[] };
  const found = nftables.flatMap(({ set }) =>
    set !== undefined && set.table === table ? endpointSet(set, family) : [],
  );
  const ports = new Map<string, AffinityPort>();
  for (const { port, backend, set } of found) {
    const { backends = [] } = ports.get(portText(port)) ?? {};
    const seconds = set.timeout ?? 0;
    ports.set(portText(port), { port, seconds, backends: [...backends, backend] });
  }
  return {
    family,
    ports: [...ports.values()],
    remembered: found.flatMap(rememberedIn),
  };
}

/** None of a set whose name was too long to have all that it stands for. */
function endpointSet(set: NftSet, family: Family): readonly EndpointSet[] {
  if (!set.name.startsWith('affinity-')) return [];
  const named = portOfChain(set.name);
  const [, text = '', number = ''] = /__([0-9a-f.]+)\/(\d+)$/.exec(set.name) ?? [];
  if (named === undefined || text === '') return [];
  const protocol = named.protocol as Protocol;
  const address = family === 'IPv6' ? text.replaceAll('.', ':') : text;
  const port = { ...named, protocol, family };
  if (endpointNames(port, { address, port: Number(number) }).affinity !== set.name) return [];
  return [{ port, backend: hostPort(address, Number(number)), set }];
}

const rememberedIn = ({ port, backend, set }: EndpointSet): readonly Remembered[] =>
  (set.elem ?? []).flatMap((one) => {
    const element = typeof one === 'string' ? undefined : one.elem;
    const { timeout = 0 } = set;
    if (typeof element?.val !== 'string' || element.expires === undefined) return [];
    return [
      { port, backend, client: element.val, ageSeconds: Math.max(0, timeout - element.expires) },
    ];
  });

export interface AffinityAdditions {
  /** '' for none. */
  readonly script: string;
  readonly clients: number;
}

/** Of the same client the one that was seen last; none that the table has given an endpoint already. */
export function affinityAdditions(
  sets: AffinitySets,
  table: string,
  all: readonly Remembered[],
): AffinityAdditions {
  const limits = new Map(sets.ports.map((one) => [portText(one.port), one]));
  const known = new Set(sets.remembered.map(clientKey));
  const newest = new Map<string, Remembered>();
  for (const one of all.toSorted((a, b) => b.ageSeconds - a.ageSeconds)) {
    const there = limits.get(portText(one.port));
    const isLive = there?.backends.includes(one.backend) === true && one.ageSeconds < there.seconds;
    if (isLive && !known.has(clientKey(one))) newest.set(clientKey(one), one);
  }
  const lines = [...newest.values()].map((one) => {
    const { seconds = 0 } = limits.get(portText(one.port)) ?? {};
    const left = Math.max(1, Math.round(seconds - one.ageSeconds));
    const name = setOf(one);
    return `add element ${NFT_FAMILY[sets.family]} ${table} ${name} { ${one.client} timeout ${seconds}s expires ${left}s }`;
  });
  return { script: lines.map((line) => `${line}\n`).join(''), clients: lines.length };
}

const clientKey = ({ port, client }: Remembered): string => `${portText(port)} ${client}`;

function setOf({ port, backend }: Remembered): string {
  const colon = backend.lastIndexOf(':');
  const address = backend.slice(0, colon).replace(/^\[(.*)\]$/, '$1');
  return endpointNames(port, { address, port: Number(backend.slice(colon + 1)) }).affinity;
}
