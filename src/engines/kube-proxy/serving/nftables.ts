// SPDX-License-Identifier: Apache-2.0
// kube-proxy's table of nftables -> frontends and backends. A map leads from an address, protocol and port to a chain; the rules of
// the chain ask a map without a name for the backend. Since Kubernetes 1.36 that has its address, before that a chain
// whose name has it. Since 1.37 the rule for a single backend has no map, but the address itself.
import { addressText, hostPort } from '../../../lib/address-bytes.ts';
import type { Family, Protocol } from '../../../model/types.ts';
import { frontendText } from '../../entry.ts';

export const NFT_TABLE = 'kube-proxy';
/** Frontends with backends, and those that have none. */
const FRONTEND_MAPS: readonly string[] = ['service-ips', 'no-endpoint-services'];

interface Element {
  readonly key: Uint8Array;
  readonly chain: string | undefined;
  readonly value: Uint8Array | undefined;
}

export interface NftTable {
  /** By chain: the maps and sets that its rules ask, and addresses with ports that they translate to without one. */
  readonly rules: ReadonlyMap<
    string,
    { readonly lookups: readonly string[]; readonly destinations: readonly Uint8Array[] }
  >;
  elements(map: string): readonly Element[];
}

const PROTOCOLS: Readonly<Record<number, Protocol>> = { 6: 'TCP', 17: 'UDP', 132: 'SCTP' };
const ADDRESS_SIZE: Readonly<Record<Family, number>> = { IPv4: 4, IPv6: 16 };
/** Parts of a concatenation are padded to four bytes. */
const PART = 4;

export function nftFrontends(
  family: Family,
  table: NftTable,
): ReadonlyMap<string, readonly string[]> {
  const backends = backendsByPort(family, table);
  const found = new Map<string, readonly string[]>();
  for (const { key, chain = '' } of FRONTEND_MAPS.flatMap((map) => table.elements(map))) {
    const text = textOfKey(family, key);
    // A Local policy without an endpoint here: in both, because clients of the node are served.
    if (text === undefined || found.has(text)) continue;
    found.set(text, backends.get(portOf(chain) ?? '') ?? []);
  }
  return found;
}

function textOfKey(family: Family, key: Uint8Array): string | undefined {
  const size = ADDRESS_SIZE[family];
  const protocol = PROTOCOLS[key[size] ?? 0];
  if (protocol === undefined || key.length < size + 2 * PART) return undefined;
  const address = addressText(key.subarray(0, size));
  return frontendText({ family, address, port: portAt(key, size + PART), protocol });
}

const portAt = (bytes: Uint8Array, at: number): number =>
  ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);

/** `service-SUSTUHLJ-default/web/tcp/http`, `external-…` and `local-…` of the same -> what they have in common */
const portOf = (chain: string): string | undefined =>
  /^(?:service|external|local|firewall)-(?<port>[A-Z0-9]{8}-[^_]+)$/.exec(chain)?.groups?.['port'];

/** Of all chains of a service port: those of its Local policy name no others. */
function backendsByPort(family: Family, table: NftTable): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  for (const [chain, { lookups, destinations }] of table.rules) {
    const port = portOf(chain);
    if (port === undefined) continue;
    const backends = lookups
      .filter((set) => set.startsWith('__map'))
      .flatMap((set) => table.elements(set).flatMap((element) => backendOf(family, element)));
    backends.push(...destinations.flatMap((value) => backendAt(family, value)));
    found.set(port, [...new Set([...(found.get(port) ?? []), ...backends])]);
  }
  return found;
}

/** `endpoint-QAUFJJ2A-default/sticky/tcp/http__10.1.1.11/8080`; a name has no colons: `…__fd00.1..b/8080` */
const ENDPOINT = /^endpoint-.*__(?<address>[0-9a-f.]+)\/(?<port>\d+)$/;

function backendOf(family: Family, { chain, value }: Element): readonly string[] {
  const valued = value === undefined ? [] : backendAt(family, value);
  if (valued.length > 0) return valued;
  const { address, port } = ENDPOINT.exec(chain ?? '')?.groups ?? {};
  if (address === undefined) return [];
  const colons = family === 'IPv6' ? address.replaceAll('.', ':') : address;
  return [hostPort(colons, Number(port))];
}

/** Of an address and a port, if both are there. */
function backendAt(family: Family, value: Uint8Array): readonly string[] {
  const size = ADDRESS_SIZE[family];
  if (value.length < size + 2) return [];
  return [hostPort(addressText(value.subarray(0, size)), portAt(value, size))];
}
