// SPDX-License-Identifier: Apache-2.0
// Which nodes take requests for direct return, and at which address.
import { familyOf } from '../../lib/ip.ts';
import type { Family } from '../../model/types.ts';
import type { Backend, NodeFacts, Peer, Plan } from '../types.ts';

/** The node's address of this family, else of the other one: what is inside a tunnel need not be of its family. */
export const tunnelAddress = ({ addresses }: Peer, family: Family): string | undefined =>
  addresses.find((address) => familyOf(address) === family) ?? addresses[0];

export interface DirectPath {
  readonly node: string;
  readonly address: string;
  readonly port: number;
}

export interface NoDirectPath {
  /** Why requests to the backend are masqueraded: follows "masqueraded for .., because". */
  readonly reason: string;
}

/** To a backend of another node. */
export function directPath(
  { peers }: Pick<NodeFacts, 'peers'>,
  { node }: Pick<Backend, 'node'>,
  family: Family,
): DirectPath | NoDirectPath {
  if (node === undefined) return { reason: 'its EndpointSlice does not name its node' };
  const peer = peers?.get(node);
  if (peer === undefined) return { reason: `Node ${node} is not known` };
  const address = tunnelAddress(peer, family);
  if (address === undefined) return { reason: `Node ${node} has no address` };
  const { directReturnPort: port } = peer;
  return port === undefined
    ? { reason: `Node ${node} does not take direct return` }
    : { node, address, port };
}

export interface PeerCounts {
  /** Other nodes that take requests for direct return. */
  readonly willing: number;
  /** Other nodes that are known. */
  readonly known: number;
}

/** undefined: no Service asks for direct return. */
export function peerCounts(plan: Plan | undefined): PeerCounts | undefined {
  if (plan?.wantsDirectReturn !== true) return undefined;
  const peers = [...(plan.node.peers?.values() ?? [])];
  const willing = peers.filter(({ directReturnPort }) => directReturnPort !== undefined);
  return { willing: willing.length, known: peers.length };
}
