// SPDX-License-Identifier: Apache-2.0
// Names in the table, as kube-proxy's nftables mode computes them (hashAndTruncate in its proxier.go), so that who knows
// its rules knows ours.
//   {default, web, http, TCP} -> service-E2TLM5N3-default/web/tcp/http

import { shortDigest } from '../../../lib/digest.ts';
import type { Family, Protocol } from '../../../model/types.ts';
import type { Backend, ServicePortPlan } from '../../../plan/types.ts';
import type { ServiceChains } from '../../rules/chains.ts';

/** Not kube-proxy's, whose agent would remove what it does not know. */
export const TABLE = 'fairlead';

export const NFT_FAMILY = { IPv4: 'ip', IPv6: 'ip6' } as const satisfies Record<Family, string>;

export type NamedPort = Pick<ServicePortPlan, 'namespace' | 'name' | 'portName' | 'protocol'>;

/** `default/web:http`; without a colon for an unnamed port. What nftables takes is 128 characters. */
export const servicePortComment = ({ namespace, name, portName }: NamedPort): string =>
  (portName === '' ? `${namespace}/${name}` : `${namespace}/${name}:${portName}`).slice(0, 128);

const portText = ({ namespace, name, portName, protocol }: NamedPort): string =>
  `${namespace}/${name}/${protocol.toLowerCase()}/${portName}`;

/** Names have 256 characters, of which kube-proxy leaves 16 to prefixes. */
const MAX_LENGTH = 240;

function hashed(text: string): string {
  const name = `${shortDigest(text).slice(0, 8)}-${text}`;
  return name.length <= MAX_LENGTH ? name : `${name.slice(0, MAX_LENGTH - 3)}...`;
}

export function serviceChains(port: NamedPort): ServiceChains {
  const base = hashed(portText(port));
  return {
    cluster: `service-${base}`,
    local: `local-${base}`,
    external: `external-${base}`,
    firewall: `firewall-${base}`,
  };
}

export interface EndpointNames {
  readonly chain: string;
  /** Clients that session affinity sends to it. */
  readonly affinity: string;
}

export function endpointNames(
  port: NamedPort,
  { address, port: number }: Pick<Backend, 'address' | 'port'>,
): EndpointNames {
  const base = hashed(`${portText(port)}__${address.replaceAll(':', '.')}/${number}`);
  return { chain: `endpoint-${base}`, affinity: `affinity-${base}` };
}

/** The Service port that a chain belongs to, by its name; undefined: it belongs to all. */
export function portOfChain(
  chain: string,
): (Omit<NamedPort, 'protocol'> & { readonly protocol: string }) | undefined {
  const [, namespace = '', name = '', protocol = '', rest = ''] =
    /^[a-z]+-[A-Z2-7]{8}-([^/]+)\/([^/]+)\/([a-z]+)\/(.*)$/.exec(chain) ?? [];
  if (namespace === '') return undefined;
  const [portName = ''] = rest.split('__');
  return { namespace, name, portName, protocol: protocol.toUpperCase() };
}

export const SERVICES = 'services';
export const SERVICE_IPS = 'service-ips';
export const SERVICE_NODEPORTS = 'service-nodeports';
export const CLUSTER_IPS = 'cluster-ips';
/** Not one of kube-proxy's: ClusterIPs of which other ports are not refused. */
export const OPEN_CLUSTER_IPS = 'open-cluster-ips';
export const SERVICE_ENDPOINTS_CHECK = 'service-endpoints-check';
export const NODEPORT_ENDPOINTS_CHECK = 'nodeport-endpoints-check';
export const NO_ENDPOINT_SERVICES = 'no-endpoint-services';
export const NO_ENDPOINT_NODEPORTS = 'no-endpoint-nodeports';
export const REJECT_CHAIN = 'reject-chain';
export const CLUSTER_IPS_CHECK = 'cluster-ips-check';
export const FIREWALL_IPS = 'firewall-ips';
/** Not one of kube-proxy's, whose NodePorts have no source ranges. */
export const FIREWALL_NODEPORTS = 'firewall-nodeports';
export const FIREWALL_CHECK = 'firewall-check';
export const MASQUERADING = 'masquerading';
export const HAIRPIN_CONNECTIONS = 'hairpin-connections';

/**
 * Not one of kube-proxy's: maps of the backends of chains, see rows/blocks.ts. Of one protocol, which rules have to name,
 * and of so many numbers: the kernel looks at each element of a map for each rule that is to name it.
 */
const ENDPOINTS_OF_MAP = 1024;

/** @param start of the block */
export const endpointsMap = (protocol: Protocol, start: number): string =>
  `endpoints-${protocol.toLowerCase()}-${Math.floor(start / ENDPOINTS_OF_MAP)}`;
