// SPDX-License-Identifier: Apache-2.0
// What ipvs mode leaves besides rules: ipsets, virtual servers, and the device kube-ipvs0, which has the addresses of all
// Services. A virtual server is kube-proxy's if its address is on that device or its port in a set of NodePorts;
// others are left alone.
import { hostPort } from '../../lib/address-bytes.ts';
import { canonicalAddress } from '../../lib/ip.ts';
import type { Leftover, LeftoversFound, RemovalStep } from './leftover.ts';

export const IPVS_DEVICE = 'kube-ipvs0';

export interface VirtualServer {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly address: string;
  readonly port: number;
  readonly realServers: number;
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

/** Of /proc/net/ip_vs, where addresses and ports are hexadecimal; virtual servers of a firewall mark have none. */
export function parseVirtualServers(table: string): readonly VirtualServer[] {
  const servers: { -readonly [Key in keyof VirtualServer]: VirtualServer[Key] }[] = [];
  let current: (typeof servers)[number] | undefined;
  for (const line of table.split('\n').slice(3)) {
    if (/^ +-> /.test(line)) {
      if (current !== undefined) current.realServers += 1;
      continue;
    }
    const [, protocol, address = '', port = ''] =
      /^(TCP|UDP|SCTP) +(\[[0-9a-f:]+\]|[0-9A-F]{8}):([0-9A-F]{4}) /.exec(line) ?? [];
    current = isProtocol(protocol)
      ? { protocol, address: addressOf(address), port: Number.parseInt(port, 16), realServers: 0 }
      : undefined;
    if (current !== undefined) servers.push(current);
  }
  return servers;
}

const isProtocol = (text: string | undefined): text is VirtualServer['protocol'] =>
  text === 'TCP' || text === 'UDP' || text === 'SCTP';

/** `0A600001`, `[fd00:0096:…]` */
export function addressOf(text: string): string {
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

const nameOf = ({ protocol, address, port }: VirtualServer): string =>
  `${protocol} ${hostPort(address, port)}`;

const isKubeProxys = (state: IpvsState): ((server: VirtualServer) => boolean) => {
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
        .map((server) => row('virtual server', nameOf(server), server.realServers)),
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
