// SPDX-License-Identifier: Apache-2.0
// Which packets a plan is asked about: of every client at every frontend, and at what is next to one: other ports,
// other protocols, addresses that are not this node's.
import { familyOf, isLoopback } from '../../../src/lib/ip.ts';
import { FAMILIES, type Family, type Protocol } from '../../../src/model/types.ts';
import type { Packet } from '../../../src/plan/explain/packet.ts';
import type { Frontend, Plan, ServicePortPlan } from '../../../src/plan/types.ts';

/** Pods of this node and of another, of the outside and of the node's own network. */
const CLIENTS: Readonly<Record<Family, readonly string[]>> = {
  IPv4: ['10.1.1.9', '10.1.2.9', '198.51.100.9', '192.0.2.200', '127.0.0.1'],
  IPv6: ['2001:db8:1:1::9', '2001:db8:1:2::9', '2001:db8:ffff::9', '2001:db8::200', '::1'],
};
const LOOPBACK: Readonly<Record<Family, string>> = { IPv4: '127.0.0.1', IPv6: '::1' };
const ELSEWHERE: Readonly<Record<Family, string>> = { IPv4: '192.0.2.199', IPv6: '2001:db8::199' };
const PROTOCOLS: readonly Protocol[] = ['TCP', 'UDP', 'SCTP'];
const UNUSED_PORT = 9;
/** Of a Service with many. */
const BACKENDS_ASKED = 4;

/** Everyone is asked for at each frontend, one client of each position at what is next to it. */
export function questionsOf(plan: Plan): readonly Packet[] {
  const asked = new Map<string, Packet>();
  const sources = { IPv4: sourcesOf(plan, 'IPv4'), IPv6: sourcesOf(plan, 'IPv6') };
  for (const { isFrontend, ...destination } of destinationsOf(plan)) {
    const family = familyOf(destination.destination);
    for (const source of isFrontend ? sources[family] : oneOfEach(plan, family)) {
      if (!isPossible(source, destination.destination)) continue;
      asked.set(`${source} ${Object.values(destination).join(' ')}`, { source, ...destination });
    }
  }
  return [...asked.values()];
}

const oneOfEach = ({ node }: Plan, family: Family): readonly string[] => {
  const [pod = '', , outside = ''] = CLIENTS[family];
  const own = node.localAddresses.filter((address) => familyOf(address) === family);
  return [pod, outside, ...own.slice(0, 1)];
};

/** Nothing but the loopback addresses themselves is reached from one. */
const isPossible = (source: string, destination: string): boolean =>
  !isLoopback(source) || isLoopback(destination);

function sourcesOf(plan: Plan, family: Family): readonly string[] {
  const ports = portsOf(plan).filter((port) => port.family === family);
  const backends = ports.flatMap(({ cluster, local }) =>
    [...cluster, ...local].slice(0, BACKENDS_ASKED).map(({ address }) => address),
  );
  const ranges = ports.flatMap(({ frontends, sources }) => [
    ...(sources?.ranges ?? []).map((prefix) => prefix.slice(0, prefix.indexOf('/'))),
    ...frontends.flatMap(({ address, isFiltered }) => (isFiltered && address ? [address] : [])),
  ]);
  const own = plan.node.localAddresses.filter((address) => familyOf(address) === family);
  return [...new Set([...CLIENTS[family], ...own, ...backends, ...ranges])];
}

interface Destination extends Pick<Packet, 'protocol' | 'destination' | 'destinationPort'> {
  readonly isFrontend: boolean;
}

const destinationsOf = (plan: Plan): readonly Destination[] =>
  portsOf(plan).flatMap((port) =>
    port.frontends.flatMap((frontend) =>
      addressesOf(plan, port, frontend).flatMap((destination) => [
        ...PROTOCOLS.map((protocol) => ({
          protocol,
          destination,
          destinationPort: frontend.port,
          isFrontend: protocol === port.protocol,
        })),
        {
          protocol: port.protocol,
          destination,
          destinationPort: UNUSED_PORT,
          isFrontend: false,
        },
      ]),
    ),
  );

function addressesOf(plan: Plan, { family }: ServicePortPlan, { address }: Frontend) {
  if (address !== undefined) return [address];
  const own = plan.node.localAddresses.filter((one) => familyOf(one) === family);
  return [...own, LOOPBACK[family], ELSEWHERE[family]];
}

const portsOf = (plan: Plan): readonly ServicePortPlan[] =>
  [...plan.services.values()]
    .flatMap(({ ports }) => ports)
    .filter(({ family }) => FAMILIES.includes(family));
