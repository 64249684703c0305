// SPDX-License-Identifier: Apache-2.0
// The network of the control plane: a namespace with a bridge, and a veth pair to every connected node. Nodes
// use it only to reach the API servers.
//
//   node 1  plane 192.168.78.1 ──veth── n1 ┐
//   node 2  plane 192.168.78.2 ──veth── n2 ┴ br0 192.168.78.250… (one address for each API server)

import { addNamespaces, ipBatch } from '../../../../src/sys/netns.ts';
import { type NodeHost, SERVICE_RANGES } from '../../../../tools/lab/wiring.ts';

/** The addresses of API servers; there can be no more of them. */
export const SERVER_ADDRESSES = ['192.168.78.250', '192.168.78.251', '192.168.78.252'] as const;
/** The ranges for ClusterIPs: the API server accepts one per family. */
export const SERVICE_CIDRS = ['10.96.0.0/16', 'fd00:96::/112'];
export const SERVER_PORT = 6443;

export type PlaneNode = Pick<NodeHost, 'namespace' | 'index'>;

export async function makePlaneNetwork(namespace: string): Promise<void> {
  await addNamespaces([namespace]);
  await ipBatch(
    [
      'link set lo up',
      'link add br0 type bridge forward_delay 0 mcast_snooping 0',
      ...SERVER_ADDRESSES.map((address) => `addr add ${address}/24 dev br0`),
      'addr add fd00:78::fa/64 dev br0 nodad',
      'link set br0 up',
    ],
    namespace,
  );
}

/**
 * Wires a node's namespace to the plane, and tells the plane the way back to the node's pods, for which
 * the Service `kubernetes` leads here. The wire goes with either namespace.
 */
export async function connectNode(plane: string, node: PlaneNode): Promise<void> {
  const { index, namespace } = node;
  await ipBatch(
    [
      `link add n${index} type veth peer name plane netns ${namespace}`,
      `link set n${index} master br0 up`,
      `route replace 10.1.${index}.0/24 via 192.168.78.${index} dev br0 onlink`,
      `route replace fd00:10:${index}::/64 via fd00:78::${index} dev br0 onlink`,
    ],
    plane,
  );
  await ipBatch(
    [
      `addr add 192.168.78.${index}/24 dev plane`,
      `addr add fd00:78::${index}/64 dev plane nodad`,
      'link set plane up',
    ],
    namespace,
  );
}

/**
 * A topology's pods refuse Service addresses, so that nothing but a socket hook can make them work. A proxy
 * that sees packets needs them sent: this lets them go to the node.
 */
export async function sendServicesToNode(namespace: string): Promise<void> {
  await ipBatch(
    SERVICE_RANGES.map((range) => `route del unreachable ${range}`),
    namespace,
  );
}
