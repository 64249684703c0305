// SPDX-License-Identifier: Apache-2.0
// What the plan says about the node itself: its addresses, where NodePorts answer, how pods are recognised.
// Sources: NodePortAddresses in pkg/proxy/util (and KEP-6032's keywords), NewLocalTrafficDetector and
// GetNodeHostIPs in cmd/kube-proxy.
import {
  canonicalAddress,
  canonicalPrefix,
  familyOf,
  hostPrefix,
  isLoopback,
  isUnspecified,
  isZeroPrefix,
} from '../../lib/ip.ts';
import { compareText } from '../../lib/names.ts';
import { CHOICES, type ServiceChoices } from '../../model/annotations.ts';
import { GENEVE_PORT } from '../../model/direct-return/annotation.ts';
import type { Family, Node, PerFamily } from '../../model/types.ts';
import type { NodeSockets } from '../node-sockets/frontends.ts';
import type { LocalDetector, NodeFacts, Peer, Plan, PlanSettings } from '../types.ts';
import type { BuildContext } from './service-plan.ts';

const perFamily = <T>(of: (family: Family) => T): PerFamily<T> => ({
  IPv4: of('IPv4'),
  IPv6: of('IPv6'),
});

/** The bind address if it is a real one, canonical. */
function boundAddress(settings: PlanSettings): string | undefined {
  const address =
    settings.bindAddress === undefined ? undefined : canonicalAddress(settings.bindAddress);
  return address === undefined || isUnspecified(address) ? undefined : address;
}

/** Facts about this node; without a Node object only what the settings say. */
function nodeFacts(
  settings: PlanSettings,
  node: Node | undefined,
  neighbours: Pick<NodeFacts, 'others' | 'peers'>,
): NodeFacts {
  const bound = boundAddress(settings);
  const known = node?.addresses ?? [];
  const all = bound === undefined ? known : [bound, ...known];
  return {
    name: settings.nodeName,
    zone: node?.zone ?? '',
    addresses: perFamily((family) => all.find((address) => familyOf(address) === family)),
    localAddresses: [...new Set(all)].filter((address) => !isLoopback(address)).sort(compareText),
    podCidrs: node?.podCidrs ?? [],
    ...(node !== undefined && { labels: node.labels }),
    ...(node?.directReturnPort === GENEVE_PORT && { isPeer: true }),
    ...neighbours,
  };
}

/** How a pod's traffic is recognised, per family; only the first prefix of a family counts. */
export function detectors(
  settings: PlanSettings,
  facts: NodeFacts,
): PerFamily<LocalDetector | undefined> {
  return perFamily((family) => detectorOf(settings, facts, family));
}

/** The detector that looks at the interface alone, if one is configured. */
export function interfaceDetector(
  settings: PlanSettings,
): Exclude<LocalDetector, { readonly kind: 'cidr' }> | undefined {
  const { detectLocalMode, podBridgeInterface: name = '' } = settings;
  const prefix = settings.podInterfaceNamePrefix ?? '';
  if (detectLocalMode === 'BridgeInterface' && name !== '') return { kind: 'interface', name };
  return detectLocalMode === 'InterfaceNamePrefix' && prefix !== ''
    ? { kind: 'interface-prefix', prefix }
    : undefined;
}

function detectorOf(
  settings: PlanSettings,
  facts: NodeFacts,
  family: Family,
): LocalDetector | undefined {
  const ofCidrs = (texts: readonly string[]): LocalDetector | undefined => {
    const cidr = texts.map(canonicalPrefix).find((text) => text && familyOf(text) === family);
    return cidr === undefined ? undefined : { kind: 'cidr', cidr };
  };
  switch (settings.detectLocalMode) {
    case 'ClusterCIDR':
      return ofCidrs(settings.clusterCidrs);
    case 'NodeCIDR':
      return ofCidrs(facts.podCidrs);
    case 'BridgeInterface':
    case 'InterfaceNamePrefix':
      return interfaceDetector(settings);
  }
}

/**
 * Where NodePorts answer. Nothing set = every local address. `primary` stands for the node IPs, `localhost` for
 * IPv4 loopback (that of IPv6 never answers NodePorts), `all` for everything; prefixes add to them. A family
 * without any entry matches all (as in kube-proxy, where a list of one family does not restrict the other); so
 * does a zero prefix.
 */
export function nodePortAddresses(
  settings: PlanSettings,
  facts: NodeFacts,
): Plan['nodePortAddresses'] {
  const entries = settings.nodePortAddresses.map((entry) => entry.trim());
  const prefixes = entries.map(canonicalPrefix).filter((prefix) => prefix !== undefined);
  const isPrimary = entries.includes('primary');
  const isLocalhost = entries.includes('localhost');
  return perFamily((family) => {
    const found = prefixes.filter((prefix) => familyOf(prefix) === family);
    if (entries.includes('all') || found.some(isZeroPrefix)) return 'all';
    if (!isPrimary && !isLocalhost && found.length === 0) return 'all';
    const own = facts.addresses[family];
    if (isPrimary && own !== undefined && !isLoopback(own)) found.push(hostPrefix(own));
    if (isLocalhost && family === 'IPv4') found.push('127.0.0.0/8');
    return [...new Set(found)].sort(compareText);
  });
}

/** Per family, whether there is a detector, for the traffic rules. */
const hasDetectors = (found: PerFamily<LocalDetector | undefined>): PerFamily<boolean> => ({
  IPv4: found.IPv4 !== undefined,
  IPv6: found.IPv6 !== undefined,
});

const sortedServiceCidrs = (lists: Iterable<readonly string[]>): readonly string[] =>
  [...new Set([...lists].flat())].sort(compareText);

/** The parts of the plan that belong to no single Service. */
export type NodeContext = Pick<Plan, 'nodePortAddresses' | 'detector' | 'node' | 'serviceCidrs'>;

/** Nodes by name; this node is recognised by the settings' name. */
export function nodeContextOf(
  settings: PlanSettings,
  nodes: ReadonlyMap<string, Node>,
  serviceCidrs: Iterable<readonly string[]>,
): NodeContext {
  const others = new Map<string, string>();
  const peers = new Map<string, Peer>();
  for (const node of [...nodes.values()].sort((a, b) => compareText(a.name, b.name))) {
    if (node.name === settings.nodeName) continue;
    for (const address of node.addresses) if (!others.has(address)) others.set(address, node.name);
    peers.set(node.name, peerOf(node));
  }
  const node = nodeFacts(settings, nodes.get(settings.nodeName), { others, peers });
  return {
    node,
    detector: detectors(settings, node),
    nodePortAddresses: nodePortAddresses(settings, node),
    serviceCidrs: sortedServiceCidrs(serviceCidrs),
  };
}

const peerOf = ({ addresses, directReturnPort }: Node): Peer => ({ addresses, directReturnPort });

/** Of Services that do not choose. */
function nodeChoices(settings: PlanSettings): ServiceChoices {
  const rows = Object.entries(CHOICES).map(([field, { values }]) => {
    const choice: string | undefined = settings[field as keyof ServiceChoices];
    return [field, choice ?? values[0]];
  });
  // Each value is one of its row.
  return Object.fromEntries(rows) as ServiceChoices;
}

/** What Services are built against. */
export function buildContext(
  settings: PlanSettings,
  { node, detector }: NodeContext,
  owners: Pick<BuildContext, 'hasConflicts' | 'otherOwner'>,
  nodeSockets: NodeSockets,
): BuildContext {
  return {
    nodeName: node.name,
    zone: node.zone,
    nodeLabels: node.labels,
    nodeAddresses: node.addresses,
    hasDetector: hasDetectors(detector),
    masqueradeAll: settings.masqueradeAll,
    allowExternalIps: settings.allowExternalIps,
    choices: nodeChoices(settings),
    externalAlgorithm: settings.externalAlgorithm ?? settings.algorithm ?? 'random',
    filtersAll: settings.sourceRangesScope === 'all',
    nodeSockets,
    hasConflicts: owners.hasConflicts,
    otherOwner: owners.otherOwner,
  };
}
