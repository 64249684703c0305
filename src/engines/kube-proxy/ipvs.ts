// SPDX-License-Identifier: Apache-2.0
// What ipvs mode leaves besides rules: ipsets, virtual servers, and the device kube-ipvs0, which has the addresses of all
// Services. A virtual server is kube-proxy's if its address is on that device or its port in a set of NodePorts;
// others are left alone.
import { hostPort } from '../../lib/address-bytes.ts';
import { canonicalAddress, familyOf } from '../../lib/ip.ts';
import type { Family } from '../../model/types.ts';
import type { Leftover, LeftoversFound, RemovalStep } from './leftover.ts';

export const IPVS_DEVICE = 'kube-ipvs0';

export interface VirtualServer {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly address: string;
  readonly port: number;
  /** `rr` */
  readonly scheduler: string;
  /** Clients keep their endpoint for this time, in jiffies; undefined: they do not. */
  readonly persistence?: Persistence;
  readonly realServers: readonly RealServer[];
}

export interface Persistence {
  readonly jiffies: number;
  /** Each address is a client; else those of one network are. */
  readonly isByAddress: boolean;
}

export interface RealServer {
  /** `10.1.0.5:8080` */
  readonly endpoint: string;
  /** `Masq`, `Local`, `Route`, `Tunnel` */
  readonly method: string;
  /** 0: it gets no new connections. */
  readonly weight: number;
}

export interface IpSet {
  readonly name: string;
  /** As `ipset save` has them: `30080`, `10.96.0.10,tcp:80`. */
  readonly entries: readonly string[];
}

export interface IpvsState {
  readonly sets: readonly IpSet[];
  readonly servers: readonly VirtualServer[];
  /** On kube-ipvs0; undefined: there is no such device. */
  readonly addresses: readonly string[] | undefined;
}

const SETS = [
  ...['LOOP-BACK', 'CLUSTER-IP', 'EXTERNAL-IP', 'EXTERNAL-IP-LOCAL', 'LOAD-BALANCER'],
  ...['LOAD-BALANCER-LOCAL', 'LOAD-BALANCER-FW', 'LOAD-BALANCER-SOURCE-IP'],
  ...['LOAD-BALANCER-SOURCE-CIDR', 'NODE-PORT-TCP', 'NODE-PORT-LOCAL-TCP', 'NODE-PORT-UDP'],
  ...['NODE-PORT-LOCAL-UDP', 'NODE-PORT-SCTP-HASH', 'NODE-PORT-LOCAL-SCTP-HASH'],
  ...['HEALTH-CHECK-NODE-PORT', 'IPVS-IPS'],
];
/** Names of sets are cut after so many characters. */
const MAX_NAME_LENGTH = 31;
const SET_NAMES: ReadonlySet<string> = new Set(
  SETS.flatMap((name) => [`KUBE-${name}`, `KUBE-6-${name}`.slice(0, MAX_NAME_LENGTH)]),
);

/** Of `ipset save`: those of kube-proxy. */
export function parseSets(saved: string): readonly IpSet[] {
  const sets = new Map<string, string[]>();
  for (const line of saved.split('\n')) {
    const [command, name = '', entry = ''] = line.split(' ');
    if (command === 'create' && SET_NAMES.has(name)) sets.set(name, []);
    else if (command === 'add') sets.get(name)?.push(entry);
  }
  return [...sets].map(([name, entries]) => ({ name, entries }));
}

const ENDPOINT = String.raw`(\[[0-9a-f:]+\]|[0-9A-F]{8}):([0-9A-F]{4})`;
const SERVER = new RegExp(
  String.raw`^(TCP|UDP|SCTP) +${ENDPOINT} (\S+)(?:.* persistent (\d+) (\w+))?`,
);
const REAL = new RegExp(String.raw`^ +-> ${ENDPOINT} +(\S+) +(\d+) `);
/** In IPv4 the mask, in IPv6 the length of the prefix, in the other byte order. */
const ONE_ADDRESS = /^(?:FFFFFFFF|80000000)$/;

/** Of /proc/net/ip_vs, where addresses and ports are hexadecimal; virtual servers of a firewall mark have none. */
export function parseVirtualServers(table: string): readonly VirtualServer[] {
  const servers: VirtualServer[] = [];
  let current: RealServer[] | undefined;
  for (const line of table.split('\n')) {
    const [isReal, at = '', atPort = '', method = '', weight] = REAL.exec(line) ?? [];
    if (isReal !== undefined) {
      const endpoint = hostPort(addressOf(at), Number.parseInt(atPort, 16));
      current?.push({ endpoint, method, weight: Number(weight) });
      continue;
    }
    const [, protocol, address = '', port = '', scheduler = '', jiffies, mask = ''] =
      SERVER.exec(line) ?? [];
    current = undefined;
    if (!isProtocol(protocol)) continue;
    current = [];
    const of = { address: addressOf(address), port: Number.parseInt(port, 16) };
    const persistence = { jiffies: Number(jiffies), isByAddress: ONE_ADDRESS.test(mask) };
    servers.push({
      ...{ protocol, ...of, scheduler },
      ...(jiffies !== undefined && { persistence }),
      realServers: current,
    });
  }
  return servers;
}

/** Of one family: `10.96.0.10:53/UDP`, and the endpoints that get new connections. */
export const ipvsFrontends = (
  family: Family,
  servers: readonly VirtualServer[],
): ReadonlyMap<string, readonly string[]> =>
  new Map(
    servers
      .filter(({ address }) => familyOf(address) === family)
      .map(({ protocol, address, port, realServers }) => [
        `${hostPort(address, port)}/${protocol}`,
        realServers.filter(({ weight }) => weight > 0).map(({ endpoint }) => endpoint),
      ]),
  );

const isProtocol = (text: string | undefined): text is VirtualServer['protocol'] =>
  text === 'TCP' || text === 'UDP' || text === 'SCTP';

/** `0A600001`, `[fd00:0096:…]` */
function addressOf(text: string): string {
  const inner = text.startsWith('[')
    ? text.slice(1, -1)
    : (text.match(/../g) ?? []).map((byte) => Number.parseInt(byte, 16)).join('.');
  return canonicalAddress(inner) ?? inner;
}

/** Of `ip -json address show dev kube-ipvs0`. */
export function parseAddresses(json: string): readonly string[] {
  const devices = JSON.parse(json) as readonly {
    readonly addr_info?: readonly { readonly local?: string; readonly scope?: string }[];
  }[];
  return devices
    .flatMap(({ addr_info: addresses = [] }) => addresses)
    .filter(({ scope }) => scope !== 'link')
    .flatMap(({ local }) => (local === undefined ? [] : [canonicalAddress(local) ?? local]));
}

export const nameOf = ({ protocol, address, port }: VirtualServer): string =>
  `${protocol} ${hostPort(address, port)}`;

export const isKubeProxys = (state: IpvsState): ((server: VirtualServer) => boolean) => {
  const addresses = new Set(state.addresses);
  const nodePorts = new Set(state.sets.flatMap(nodePortsOf));
  return ({ protocol, address, port }) =>
    addresses.has(address) || nodePorts.has(`${protocol} ${port}`);
};

/** `TCP 30080`; those of SCTP stand with an address: `192.168.0.1,sctp:30080`. */
function nodePortsOf({ name, entries }: IpSet): readonly string[] {
  const protocol = /-NODE-PORT-(?:LOCAL-)?(TCP|UDP|SCTP)/.exec(name)?.[1];
  if (protocol === undefined) return [];
  return entries.map((entry) => `${protocol} ${/(\d+)$/.exec(entry)?.[1] ?? ''}`);
}

export function ipvsRows(state: IpvsState): LeftoversFound {
  const isOwn = isKubeProxys(state);
  const row = (kind: Leftover['kind'], what: string, count: number): Leftover => ({
    ...{ kind, where: 'ipvs', what, count },
  });
  const isUsed = state.sets.length > 0 || state.addresses !== undefined;
  return {
    leftovers: [
      ...state.servers
        .filter(isOwn)
        .map((server) => row('virtual server', nameOf(server), server.realServers.length)),
      ...state.sets.map(({ name, entries }) => row('ipset', name, entries.length)),
      ...(state.addresses === undefined
        ? []
        : [row('device', IPVS_DEVICE, state.addresses.length)]),
    ],
    kept: !isUsed
      ? []
      : state.servers
          .filter((server) => !isOwn(server))
          .map((server) => ({
            where: 'ipvs',
            what: `virtual server ${nameOf(server)}`,
            reason: `its address is not on ${IPVS_DEVICE}, and its port is no NodePort`,
          })),
  };
}

const SERVER_OPTION = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service' } as const;

/** After the rules, which refer to the sets. Without its sets and its device nobody could tell that a virtual server is kube-proxy's. */
export function ipvsRemoval(state: IpvsState): readonly RemovalStep[] {
  const servers = state.servers.filter(isKubeProxys(state));
  return [
    ...servers.map(({ protocol, address, port }) => ({
      program: 'ipvsadm',
      args: ['-D', SERVER_OPTION[protocol], hostPort(address, port)],
    })),
    ...state.sets.map(({ name }) => ({
      ...{ program: 'ipset', args: ['destroy', name], after: 'ipvsadm' },
      // The rules have been removed, but those of nf_tables refer to it for a little longer.
      retryWhile: /in use by a kernel component/,
    })),
    ...(state.addresses === undefined
      ? []
      : [
          {
            ...{ program: 'ip', args: ['link', 'delete', 'dev', IPVS_DEVICE] },
            after: 'ipvsadm',
          },
        ]),
  ];
}
