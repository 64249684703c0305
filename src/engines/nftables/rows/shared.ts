// SPDX-License-Identifier: Apache-2.0
// The chains, sets and maps that all Services share: from settings alone, so that they seldom change. What belongs to a
// Service is in elements and in chains of its own. The layout is that of kube-proxy (setupNFTables in its proxier.go);
// docs/semantics.md lists what differs.
import { isLoopback, prefixContains } from '../../../lib/ip.ts';
import type { Family } from '../../../model/types.ts';
import type { Plan } from '../../../plan/types.ts';
import {
  CLUSTER_IPS,
  CLUSTER_IPS_CHECK,
  FIREWALL_CHECK,
  FIREWALL_IPS,
  FIREWALL_NODEPORTS,
  HAIRPIN_CONNECTIONS,
  MASQUERADING,
  NO_ENDPOINT_NODEPORTS,
  NO_ENDPOINT_SERVICES,
  NODEPORT_ENDPOINTS_CHECK,
  OPEN_CLUSTER_IPS,
  REJECT_CHAIN,
  SERVICE_ENDPOINTS_CHECK,
  SERVICE_IPS,
  SERVICE_NODEPORTS,
  SERVICES,
} from '../rules/names.ts';
import type { Chain, Fragment, SetDeclaration } from '../rules/types.ts';
import { IP, joinRules, markRule, markText, notFromPods, prefixText } from './match.ts';

export interface SharedParts extends Pick<Plan, 'nodePortAddresses' | 'detector'> {
  readonly family: Family;
  readonly mark: number;
  /** nf_conntrack_tcp_be_liberal: only resets outside the window are INVALID, so nothing INVALID is dropped. */
  readonly isTcpLiberal: boolean;
  /** Whose connections to ClusterIPs are masqueraded: kube-proxy decides it for all Services at once. */
  readonly masquerades: Fragment['masquerades'];
}

const DNAT = -100;
/** Before packets are translated, so that rules see the frontend. */
const BEFORE_DNAT = DNAT - 10;
const FILTER = 0;
const SNAT = 100;

export function sharedChains(parts: SharedParts): ReadonlyMap<string, Chain> {
  const { family, nodePortAddresses } = parts;
  const toAddress = `${IP[family]} daddr . meta l4proto . th dport vmap`;
  const toNodePort = (map: string): readonly string[] =>
    atNodePorts(nodePortAddresses[family], family).map(
      (match) => `${match} meta l4proto . th dport vmap @${map}`,
    );
  const jumps = (state: string, ...chains: readonly string[]): readonly string[] =>
    chains.map((chain) => `${state}jump ${chain}`);
  const isNew = 'ct state new ';
  return new Map<string, Chain>([
    base('filter', 'prerouting', BEFORE_DNAT, '-pre-dnat', jumps(isNew, FIREWALL_CHECK)),
    base('filter', 'output', BEFORE_DNAT, '-pre-dnat', jumps(isNew, FIREWALL_CHECK)),
    base('filter', 'input', FILTER, '', [
      ...jumps(isNew, NODEPORT_ENDPOINTS_CHECK, SERVICE_ENDPOINTS_CHECK),
    ]),
    base('filter', 'forward', FILTER, '', [
      ...(parts.isTcpLiberal ? [] : [INVALID]),
      ...jumps(isNew, SERVICE_ENDPOINTS_CHECK, CLUSTER_IPS_CHECK),
    ]),
    base('filter', 'output', FILTER, '', [
      ...jumps(isNew, SERVICE_ENDPOINTS_CHECK, CLUSTER_IPS_CHECK),
    ]),
    base('nat', 'prerouting', DNAT, '', jumps('', SERVICES)),
    base('nat', 'output', DNAT, '', jumps('', SERVICES)),
    base('nat', 'postrouting', SNAT, '', jumps('', MASQUERADING)),
    chain(SERVICES, [
      ...clusterIpMasquerading(parts),
      `${toAddress} @${SERVICE_IPS}`,
      ...toNodePort(SERVICE_NODEPORTS),
    ]),
    chain(SERVICE_ENDPOINTS_CHECK, [`${toAddress} @${NO_ENDPOINT_SERVICES}`]),
    chain(NODEPORT_ENDPOINTS_CHECK, toNodePort(NO_ENDPOINT_NODEPORTS)),
    chain(FIREWALL_CHECK, [
      TRANSLATED,
      `${toAddress} @${FIREWALL_IPS}`,
      ...toNodePort(FIREWALL_NODEPORTS),
    ]),
    chain(CLUSTER_IPS_CHECK, [refusedPorts(family)]),
    chain(MASQUERADING, masqueradingRules(parts)),
    chain(REJECT_CHAIN, ['reject']),
  ]);
}

/**
 * A reset for a packet that conntrack does not know would end a connection (kubernetes/kubernetes#74839). kube-proxy has
 * this rule in mode iptables alone.
 */
const INVALID = 'ct state invalid drop';

/** What the node sends to an endpoint of its own comes in again by lo, to a port that may be the number of a NodePort. */
const TRANSLATED = 'iifname "lo" ct status dnat return';

const chain = (name: string, rules: readonly string[]): readonly [string, Chain] => [
  name,
  { hook: '', rules: joinRules(rules) },
];

const base = (
  type: 'filter' | 'nat',
  hook: string,
  priority: number,
  suffix: string,
  rules: readonly string[],
): readonly [string, Chain] => [
  `${type}-${hook}${suffix}`,
  {
    hook: `type ${type} hook ${hook} priority ${priority}; policy accept;`,
    rules: joinRules(rules),
  },
];

/** Pings and everything else without ports passes. What a Service serves has another destination by now. */
const refusedPorts = (family: Family): string =>
  `meta l4proto { tcp, udp, sctp } ${IP[family]} daddr @${CLUSTER_IPS} reject comment "ports that the Service does not have"`;

function clusterIpMasquerading({ family, mark, masquerades, detector }: SharedParts) {
  if (masquerades === 'nobody') return [];
  const pods = detector[family];
  const clients = masquerades === 'everyone' || pods === undefined ? '' : notFromPods(pods, family);
  if (clients === undefined) return [];
  const match = clients === '' ? '' : `${clients} `;
  return [CLUSTER_IPS, OPEN_CLUSTER_IPS].map(
    (set) =>
      `${IP[family]} daddr @${set} ${match}${markRule(mark)} comment "masquerade clients of ClusterIPs"`,
  );
}

/** The mark is removed: a packet that passes here again must not be masqueraded twice. */
const masqueradingRules = ({ family, mark }: SharedParts): readonly string[] => [
  `meta mark & ${markText(mark)} != 0x00000000 meta mark set meta mark ^ ${markText(mark)} masquerade fully-random`,
  `ct status dnat ${IP[family]} saddr . ${IP[family]} daddr . meta l4proto . th dport @${HAIRPIN_CONNECTIONS} masquerade fully-random`,
];

const LOCALHOST: Readonly<Record<Family, string>> = { IPv4: '127.0.0.0/8', IPv6: '::1' };

const addressOf = (prefix: string): string => prefix.slice(0, prefix.indexOf('/'));

/**
 * Loopback addresses answer no NodePorts, as in kube-proxy's nftables mode. kube-proxy lists the addresses that are in
 * nodePortAddresses when it syncs; these rules match the prefix and leave it to the kernel which addresses are the node's.
 */
function atNodePorts(accepted: 'all' | readonly string[], family: Family): readonly string[] {
  const destination = `${IP[family]} daddr`;
  const elsewhere = `${destination} != ${LOCALHOST[family]}`;
  if (accepted === 'all') return [`fib daddr type local ${elsewhere}`];
  const loopback = addressOf(`${LOCALHOST[family]}/`);
  return accepted
    .filter((prefix) => !isLoopback(addressOf(prefix)))
    .map((prefix) => {
      const match = `fib daddr type local ${destination} ${prefixText(prefix)}`;
      return prefixContains(prefix, loopback) ? `${match} ${elsewhere}` : match;
    });
}

export function sharedSets(family: Family): ReadonlyMap<string, SetDeclaration> {
  const address = family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr';
  const port = 'inet_proto . inet_service';
  const declared = (kind: 'set' | 'map', lines: string): SetDeclaration => ({
    ...{ kind, lines, isDynamic: false },
  });
  const verdicts = (key: string): SetDeclaration => declared('map', `type ${key} : verdict`);
  return new Map<string, SetDeclaration>([
    [SERVICE_IPS, verdicts(`${address} . ${port}`)],
    [SERVICE_NODEPORTS, verdicts(port)],
    [NO_ENDPOINT_SERVICES, verdicts(`${address} . ${port}`)],
    [NO_ENDPOINT_NODEPORTS, verdicts(port)],
    [FIREWALL_IPS, verdicts(`${address} . ${port}`)],
    [FIREWALL_NODEPORTS, verdicts(port)],
    [CLUSTER_IPS, declared('set', `type ${address}`)],
    [OPEN_CLUSTER_IPS, declared('set', `type ${address}`)],
    [HAIRPIN_CONNECTIONS, declared('set', `type ${address} . ${address} . ${port}`)],
  ]);
}

/** @param map a name of endpointsMap */
export const endpointsDeclaration = (map: string, family: Family): SetDeclaration => ({
  ...{ kind: 'map', isDynamic: false },
  lines: `typeof numgen random mod 1 : ${IP[family]} daddr . ${map.split('-')[1]} dport`,
});
