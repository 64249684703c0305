// SPDX-License-Identifier: Apache-2.0
// What a captured node's network needs besides that of the lab, as lines of ip(8). Pure.
//
// The lab has a node and another one, each with a pod that serves; they get the addresses of all endpoints, of this node and of
// others. The node has its own addresses, and a client pod one of its pod range.
import { familyOf, prefixContains } from '../../src/lib/ip.ts';
import { FAMILIES, type Family } from '../../src/model/types.ts';
import type { Plan } from '../../src/plan/types.ts';
import type { NodeHost, Pod } from '../lab/wiring.ts';
import { SERVICE_RANGES } from '../lab/wiring.ts';

/** An address with its port, as the arguments of the echo server. */
export interface Served {
  readonly here: readonly string[];
  readonly elsewhere: readonly string[];
}

/** More processes and addresses than this say nothing more. */
export const MOST_ENDPOINTS = 500;

/** TCP and UDP alone: the lab has no clients of SCTP. */
export function servedBy({ services }: Plan): Served {
  const [here, elsewhere] = [new Set<string>(), new Set<string>()];
  for (const { ports } of services.values()) {
    for (const { serving, protocol } of ports) {
      for (const { address, port, isLocal } of protocol === 'SCTP' ? [] : serving) {
        if (here.size + elsewhere.size < MOST_ENDPOINTS)
          (isLocal ? here : elsewhere).add(`${address}/${port}`);
      }
    }
  }
  return { here: [...here], elsewhere: [...elsewhere].filter((one) => !here.has(one)) };
}

export const addressesOf = (served: readonly string[]): readonly string[] => [
  ...new Set(served.map((at) => at.slice(0, at.lastIndexOf('/')))),
];

const bits = (address: string): string => (familyOf(address) === 'IPv4' ? '/32' : '/128');
const addressLine = (address: string, device: string): string =>
  `addr add ${address}${bits(address)} dev ${device}${familyOf(address) === 'IPv6' ? ' nodad' : ''}`;
const routeLine = (address: string, to: { readonly ipv4: string; readonly ipv6: string }): string =>
  `route replace ${address}${bits(address)} via ${familyOf(address) === 'IPv4' ? to.ipv4 : to.ipv6}`;

/** The addresses of the wire: see uplinkLines. */
const onWire = ({ index }: NodeHost) => ({
  ipv4: `192.168.77.${index}`,
  ipv6: `fd00:77::${index}`,
});

/** An address that nobody has in the pod range of this node, or else of the cluster. */
export function podAddress(
  { node, detector }: Plan,
  family: Family,
  taken: ReadonlySet<string>,
): string | undefined {
  const own = node.podCidrs.find((one) => familyOf(one) === family);
  const found = detector[family];
  const range = own ?? (found?.kind === 'cidr' ? found.cidr : undefined);
  if (range === undefined) return undefined;
  const [base = '', length = '0'] = range.split('/');
  if (Number(length) > (family === 'IPv4' ? 28 : 120)) return undefined;
  for (let last = 2; last < 250; last += 1) {
    const address =
      family === 'IPv4' ? base.replace(/\d+$/, String(last)) : withLastGroup(base, last);
    if (address !== undefined && prefixContains(range, address) && !taken.has(address))
      return address;
  }
  return undefined;
}

const withLastGroup = (base: string, last: number): string | undefined =>
  base.endsWith('::') ? `${base}${last.toString(16)}` : undefined;

export interface Places {
  readonly node: NodeHost;
  readonly other: NodeHost;
  readonly client: Pod;
  readonly serverHere: Pod;
  readonly serverThere: Pod;
  /** Of the client pod. */
  readonly clientAddresses: readonly string[];
  readonly here: readonly string[];
  readonly elsewhere: readonly string[];
  /** Of Services. */
  readonly frontends: readonly string[];
  readonly ownAddresses: readonly string[];
}

/** By namespace. */
export function networkLines(places: Places): ReadonlyMap<string, readonly string[]> {
  const { node, other, client, serverHere, serverThere } = places;
  const toOther = onWire(other);
  const toNode = onWire(node);
  // The lab's own ranges are no Services here.
  const free = SERVICE_RANGES.map((range) => `route del unreachable ${range}`);
  const defaults = FAMILIES.flatMap((family) =>
    places.clientAddresses
      .filter((address) => familyOf(address) === family)
      .map((address) => {
        const via = family === 'IPv4' ? node.ipv4 : node.ipv6;
        return `route replace default via ${via} dev eth0 src ${address}`;
      }),
  );
  return new Map([
    [
      client.namespace,
      [...free, ...places.clientAddresses.map((one) => addressLine(one, 'eth0')), ...defaults],
    ],
    [serverHere.namespace, [...free, ...places.here.map((one) => addressLine(one, 'lo'))]],
    [serverThere.namespace, [...free, ...places.elsewhere.map((one) => addressLine(one, 'lo'))]],
    [
      node.namespace,
      [
        ...places.ownAddresses.map((one) => addressLine(one, 'lo')),
        `route add default via ${toOther.ipv4}`,
        `route add default via ${toOther.ipv6}`,
        ...places.here.map((one) => routeLine(one, serverHere)),
        ...places.elsewhere.map((one) => routeLine(one, toOther)),
        ...places.clientAddresses.map((one) => routeLine(one, client)),
      ],
    ],
    [
      other.namespace,
      [
        ...places.elsewhere.map((one) => routeLine(one, serverThere)),
        ...[
          ...places.here,
          ...places.clientAddresses,
          ...places.ownAddresses,
          ...places.frontends,
        ].map((one) => routeLine(one, toNode)),
      ],
    ],
  ]);
}
