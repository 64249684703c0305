// SPDX-License-Identifier: Apache-2.0
// The chains that all Services share: from the fragments of all Services in their order, and from the settings.
import type { Family } from '../../../model/types.ts';
import {
  KUBE_CLUSTER_IPS,
  KUBE_EXTERNAL_SERVICES,
  KUBE_FIREWALL,
  KUBE_FORWARD,
  KUBE_MARK_MASQ,
  KUBE_NODEPORTS,
  KUBE_POSTROUTING,
  KUBE_PROXY_CANARY,
  KUBE_PROXY_FIREWALL,
  KUBE_SERVICES,
} from '../rules/names.ts';
import type { Chain, Rule } from '../rules/types.ts';
import type { Fragment } from './fragment.ts';
import { atNodePortAddresses, type NodePortAddresses, nodePortJumps } from './node-ports.ts';
import type { RenderSettings } from './settings.ts';
import { ACCEPT, DROP, jumpTo, RETURN } from './targets.ts';

/** What the shared chains of one family are made from. */
export interface SharedParts {
  readonly family: Family;
  readonly settings: RenderSettings;
  readonly addresses: NodePortAddresses;
  readonly serviceCidrs: readonly string[];
  /** Of all Services together. */
  readonly services: Omit<Fragment, 'chains'>;
}

const CANARY: Chain = { name: KUBE_PROXY_CANARY, rules: [] };

export const mangleChains = (): readonly Chain[] => [CANARY];

export function filterChains(parts: SharedParts): readonly Chain[] {
  const { services, addresses, settings } = parts;
  const { clusterIps, strayClusterIps } = services;
  const external = atNodePortAddresses(services.externalRefusals, addresses);
  return [
    CANARY,
    { name: KUBE_SERVICES, rules: [...services.refusals, ...clusterIpJumps(parts)] },
    { name: KUBE_EXTERNAL_SERVICES, rules: external },
    { name: KUBE_FORWARD, rules: forwardRules(settings) },
    { name: KUBE_NODEPORTS, rules: services.healthChecks },
    { name: KUBE_PROXY_FIREWALL, rules: atNodePortAddresses(services.firewall, addresses) },
    { name: KUBE_CLUSTER_IPS, rules: [...clusterIps, ...strayClusterIps] },
    ...(addresses.hasLocalhost ? [MARTIAN_GUARD] : []),
  ];
}

export const natChains = ({ settings, addresses, services }: SharedParts): readonly Chain[] => [
  CANARY,
  { name: KUBE_SERVICES, rules: [...services.services, ...nodePortJumps(addresses)] },
  { name: KUBE_NODEPORTS, rules: services.nodePorts },
  { name: KUBE_POSTROUTING, rules: postroutingRules(settings) },
  {
    name: KUBE_MARK_MASQ,
    rules: [{ target: { kind: 'set-mark', ...markOf(settings) } }, OWNED],
  },
  { name: KUBE_CLUSTER_IPS, rules: [] },
];

/**
 * Tells our rules from kube-proxy's where those of filter have been flushed: kube-proxy writes KUBE-MARK-MASQ anew in
 * each of its syncs. Only the first packets of masqueraded connections pass it.
 */
const OWNED: Rule = { comment: 'written by fairlead', target: jumpTo(KUBE_CLUSTER_IPS) };

const PROTOCOLS = ['TCP', 'UDP', 'SCTP'] as const;

/** More jumps than these cost other connections as much as the chain. */
const MAX_RANGES = 8;

/**
 * Pings and everything else without ports passes. KUBE-CLUSTER-IPS is long, so only what is sent to a range of ClusterIPs
 * enters it: else each new connection of pods to each other passes a rule for each Service. There is always a jump: it tells
 * our rules from kube-proxy's.
 */
function clusterIpJumps({ services, serviceCidrs }: SharedParts): readonly Rule[] {
  const comment = 'kubernetes cluster IPs, ports of no service';
  const prefixes = [...serviceCidrs, ...new Set(services.strayRanges)];
  const ranges: readonly Rule[] =
    prefixes.length === 0 || prefixes.length > MAX_RANGES
      ? [{}]
      : prefixes.map((prefix) => ({ destination: { prefix } }));
  return ranges.flatMap((range) =>
    PROTOCOLS.map((protocol) => ({
      comment,
      ...range,
      protocol,
      target: jumpTo(KUBE_CLUSTER_IPS),
    })),
  );
}

/** A reset for a packet that conntrack does not know would end a connection (kubernetes/kubernetes#74839). */
function forwardRules(settings: RenderSettings): readonly Rule[] {
  const { isTcpLiberal, accounting } = settings;
  const counter = 'ct_state_invalid_dropped_pkts';
  const invalid: Rule = {
    states: { any: ['INVALID'] },
    ...(accounting.includes(counter) && { accounting: counter }),
    target: DROP,
  };
  return [
    ...(isTcpLiberal ? [] : [invalid]),
    { comment: 'kubernetes forwarding rules', mark: markOf(settings), target: ACCEPT },
    {
      comment: 'kubernetes forwarding conntrack rule',
      states: { any: ['RELATED', 'ESTABLISHED'] },
      target: ACCEPT,
    },
  ];
}

/** What is forwarded to a loopback address, which route_localnet permits (CVE-2020-8558). */
const MARTIAN_GUARD: Chain = {
  name: KUBE_FIREWALL,
  rules: [
    {
      comment: 'block incoming localnet connections',
      destination: { prefix: '127.0.0.0/8' },
      source: { prefix: '127.0.0.0/8', not: true },
      states: { any: ['RELATED', 'ESTABLISHED', 'DNAT'], not: true },
      target: DROP,
    },
  ],
};

interface Mark {
  readonly value: number;
  readonly mask: number;
}

function markOf({ masqueradeBit }: Pick<RenderSettings, 'masqueradeBit'>): Mark {
  const value = 2 ** masqueradeBit;
  return { value, mask: value };
}

/** The mark is removed first: a packet that passes here again must not be masqueraded twice. */
function postroutingRules(settings: RenderSettings): readonly Rule[] {
  const mark = markOf(settings);
  return [
    { mark: { ...mark, not: true }, target: RETURN },
    { target: { kind: 'set-mark', value: mark.value, mask: 0 } },
    {
      comment: 'kubernetes service traffic requiring SNAT',
      target: { kind: 'masquerade', isRandomFully: settings.hasRandomFully },
    },
  ];
}
