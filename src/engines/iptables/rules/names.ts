// SPDX-License-Identifier: Apache-2.0
// The names of chains, as kube-proxy computes them (portProtoHash and servicePortEndpointChainName in proxier.go), so
// that its rules and ours are replaced by each other chain by chain.
//   {default, web, http, TCP} -> KUBE-SVC-OVTWZ4GROBJZO4C5

import { hostPort } from '../../../lib/address-bytes.ts';
import { flatText } from '../../../lib/compact.ts';
import { shortDigest } from '../../../lib/digest.ts';
import type { Backend, ServicePortPlan } from '../../../plan/types.ts';
import type { ServiceChains } from '../../rules/chains.ts';

export type NamedPort = Pick<ServicePortPlan, 'namespace' | 'name' | 'portName' | 'protocol'>;

/** `default/web:http`; without a colon for an unnamed port. */
export const servicePortName = ({ namespace, name, portName }: NamedPort): string =>
  portName === '' ? `${namespace}/${name}` : `${namespace}/${name}:${portName}`;

const hashedText = (port: NamedPort): string => servicePortName(port) + port.protocol.toLowerCase();

export function serviceChains(port: NamedPort): ServiceChains {
  const digest = shortDigest(hashedText(port));
  return {
    cluster: flatText('KUBE-SVC-', digest),
    local: flatText('KUBE-SVL-', digest),
    external: flatText('KUBE-EXT-', digest),
    firewall: flatText('KUBE-FW-', digest),
  };
}

type BackendAddress = Pick<Backend, 'address' | 'port'>;

/** KUBE-SEP-: one backend of one service port. */
export const endpointChain = (port: NamedPort, backend: BackendAddress): string =>
  endpointChains(port)(backend);

/** The same for many backends: what they have in common is made once. */
export function endpointChains(port: NamedPort): (backend: BackendAddress) => string {
  const common = hashedText(port);
  return ({ address, port: number }) =>
    flatText('KUBE-SEP-', shortDigest(common + hostPort(address, number)));
}

/** Chains of a single service port: those that go with it. */
export const isServiceChain = (name: string): boolean => /^KUBE-(SVC|SVL|EXT|FW|SEP)-/.test(name);

/** Chains that all Services share. */
export const KUBE_SERVICES = 'KUBE-SERVICES';
export const KUBE_EXTERNAL_SERVICES = 'KUBE-EXTERNAL-SERVICES';
export const KUBE_NODEPORTS = 'KUBE-NODEPORTS';
export const KUBE_POSTROUTING = 'KUBE-POSTROUTING';
export const KUBE_MARK_MASQ = 'KUBE-MARK-MASQ';
export const KUBE_FORWARD = 'KUBE-FORWARD';
export const KUBE_PROXY_FIREWALL = 'KUBE-PROXY-FIREWALL';
/** Shared with the kubelet, which has the same rule in it. */
export const KUBE_FIREWALL = 'KUBE-FIREWALL';
/** An empty chain in each table: if it is gone, so are the rules. */
export const KUBE_PROXY_CANARY = 'KUBE-PROXY-CANARY';
/** Not one of kube-proxy's: in filter it refuses the ports of ClusterIPs that no Service has; in nat it is empty. */
export const KUBE_CLUSTER_IPS = 'KUBE-CLUSTER-IPS';
