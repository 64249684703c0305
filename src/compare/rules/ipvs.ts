// SPDX-License-Identifier: Apache-2.0
// The virtual servers of IPVS as rules. The kernel asks them where it asks chains of type nat: for what comes to the node after
// INPUT's filter, for what it sends after OUTPUT's nat (net/netfilter/ipvs/ip_vs_core.c, ip_vs_ops4).
import { nameOf, type RealServer, type VirtualServer } from '../../engines/kube-proxy/ipvs.ts';
import { familyOf } from '../../lib/ip.ts';
import type { Family } from '../../model/types.ts';
import { backendOf } from './iptables.ts';
import { LazyChains } from './lazy-chains.ts';
import { numberOf, rangeOf } from './ranges.ts';
import { surveyOf } from './survey.ts';
import type { Action, Program, Rule, Test } from './types.ts';

/** NF_IP_PRI_NAT_SRC - 1 and NF_IP_PRI_NAT_DST + 2. */
const INPUT_PRIORITY = 99;
const OUTPUT_PRIORITY = -98;
const CHAIN = 'ipvs servers';

export interface IpvsServers {
  readonly servers: readonly VirtualServer[];
  /** On kube-ipvs0. */
  readonly addresses: readonly string[];
  readonly isProxys: (server: VirtualServer) => boolean;
  /** How long clients keep their endpoint; undefined: nobody could ask the kernel. */
  readonly secondsOf: (server: VirtualServer) => number | undefined;
}

export function ipvsProgram(family: Family, given: IpvsServers): Program {
  const servers = new Map(
    given.servers
      .filter(({ address }) => familyOf(address) === family)
      .map((server) => [chainOf(server), server]),
  );
  const all = [...servers.values()];
  const chains = new LazyChains<readonly VirtualServer[]>(
    {
      get: (name) => {
        const server = servers.get(name);
        return name === CHAIN ? all : server && [server];
      },
      *[Symbol.iterator]() {
        yield [CHAIN, all] as const;
        for (const [name, server] of servers) yield [name, [server]] as const;
      },
    },
    (name, some) =>
      some.flatMap((one) => (name === CHAIN ? entryOf(one, given) : rulesOf(one, given))),
  );
  const sets = new Map();
  const at = (priority: number) => [{ priority, isNat: true, chain: CHAIN }];
  return {
    ...{ family, chains, sets, survey: surveyOf(chains.values(), sets) },
    hooks: {
      ...{ prerouting: [], forward: [], postrouting: [] },
      input: at(INPUT_PRIORITY),
      output: at(OUTPUT_PRIORITY),
    },
    virtualAddresses: new Set(given.addresses.filter((one) => familyOf(one) === family)),
  };
}

const chainOf = (server: VirtualServer): string => `ipvs ${nameOf(server)}`;

/** Which packets are the virtual server's. */
function entryOf(server: VirtualServer, { isProxys }: IpvsServers): Rule {
  const { protocol, address, port } = server;
  const at = numberOf(address);
  return {
    tests: [
      {
        ...{ kind: 'address', side: 'destination', not: false },
        ranges: [rangeOf(address) ?? { from: at, to: at }],
      },
      { kind: 'protocol', protocols: [protocol], not: false },
      { kind: 'port', ranges: [{ from: port, to: port }], not: false },
    ],
    actions: [{ kind: 'goto', chain: chainOf(server) }],
    text: `${chainOf(server)} ${server.scheduler}`,
    isForeign: !isProxys(server),
  };
}

/** `weight`: of those that have none, none is chosen. `equal`: whatever weight they have. */
const SCHEDULERS: Readonly<Record<string, 'weight' | 'equal' | 'heaviest'>> = {
  ...{ rr: 'equal', lc: 'equal' },
  ...{ wrr: 'weight', wlc: 'weight', sed: 'weight', nq: 'weight', twos: 'weight' },
  // Of all clients together.
  ...{ sh: 'weight', mh: 'weight' },
  fo: 'heaviest',
};

function rulesOf(server: VirtualServer, given: IpvsServers): readonly Rule[] {
  const isForeign = !given.isProxys(server);
  const rule = (text: string, tests: readonly Test[], actions: readonly Action[]): Rule => ({
    ...{ tests, actions, isForeign },
    text: `${chainOf(server)} ${server.scheduler}${text}`,
  });
  const open = server.realServers.filter(({ weight }) => weight > 0);
  // The kernel answers with ICMP port unreachable.
  if (open.length === 0) return [rule(' without real servers', [], [{ kind: 'reject' }])];
  const unread = reasonUnread(server, given);
  if (unread !== undefined) return [rule('', [], [{ kind: 'unread', text: unread }])];
  const seconds = given.secondsOf(server);
  const listOf = ({ endpoint }: RealServer): string => `${chainOf(server)} ${endpoint}`;
  const chosen = (real: RealServer, tests: readonly Test[]): Rule => {
    const to = backendOf(real.endpoint);
    const actions: Action[] =
      to === undefined ? [{ kind: 'unread', text: real.endpoint }] : [{ kind: 'dnat', to: [to] }];
    if (server.persistence !== undefined) actions.unshift({ kind: 'remember', list: listOf(real) });
    return rule(` -> ${real.endpoint} ${real.method} weight ${real.weight}`, tests, actions);
  };
  const kept =
    seconds === undefined || server.persistence === undefined
      ? []
      : open.map((real) => chosen(real, [{ kind: 'remembered', list: listOf(real), seconds }]));
  return [
    ...kept,
    ...sharesOf(server, open).map(([real, share]) => chosen(real, shareTest(share))),
  ];
}

const shareTest = (share: number): readonly Test[] => (share < 1 ? [{ kind: 'share', share }] : []);

/** The share of each among those that no rule before it has taken. */
function sharesOf(
  { scheduler }: VirtualServer,
  open: readonly RealServer[],
): readonly (readonly [RealServer, number])[] {
  const how = SCHEDULERS[scheduler];
  const most = Math.max(...open.map(({ weight }) => weight));
  const some = how === 'heaviest' ? open.filter(({ weight }) => weight === most).slice(0, 1) : open;
  const weightOf = ({ weight }: RealServer): number => (how === 'weight' ? weight : 1);
  let left = some.reduce((sum, real) => sum + weightOf(real), 0);
  return some.map((real) => {
    const share = weightOf(real) / left;
    left -= weightOf(real);
    return [real, share] as const;
  });
}

/** What it does is not known, or not the same for every client of one class. */
function reasonUnread(server: VirtualServer, given: IpvsServers): string | undefined {
  const { scheduler, persistence, realServers } = server;
  if (!(scheduler in SCHEDULERS)) return `scheduler ${scheduler}`;
  // It refuses the clients that belong to one, but with a flag that the kernel does not list.
  if (scheduler === 'sh' && realServers.some(({ weight }) => weight === 0))
    return 'scheduler sh with a weight of 0';
  const direct = realServers.find(({ method }) => method !== 'Masq' && method !== 'Local');
  if (direct !== undefined) return `forwarding ${direct.method}`;
  if (persistence === undefined) return undefined;
  if (!persistence.isByAddress) return 'persistence of networks';
  return given.secondsOf(server) === undefined ? 'persistence of unknown length' : undefined;
}
