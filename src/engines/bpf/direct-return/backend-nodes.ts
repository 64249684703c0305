// SPDX-License-Identifier: Apache-2.0
// fl_backend_node: the address of the node that a backend runs on, or of the real server that it is, for direct return.
// Written before the backend is in any set; cleared only when its id is given to another one, because flows that exist
// read it, too: whether a node takes new ones is asked of fl_peer.
import { isSame } from '../../../lib/json.ts';
import { FAMILIES, type Family } from '../../../model/types.ts';
import { tunnelAddress } from '../../../plan/direct-return/peers.ts';
import { isRealServer } from '../../../plan/direct-return/real-servers.ts';
import type { Backend, NodeFacts } from '../../../plan/types.ts';
import type { Ledger, PortRecord } from '../state/ledger.ts';
import { clear, element, storeWords } from '../state/tables.ts';
import { decodeNodeAddress, encodeNodeAddress } from './direct-layout.ts';

type Peers = NodeFacts['peers'];

/** @param isFresh the id was another backend's before */
export function writeBackendNode(
  ledger: Ledger,
  { family }: Pick<PortRecord, 'family'>,
  { id, isFresh }: { readonly id: number; readonly isFresh: boolean },
  { node }: Pick<Backend, 'node'>,
): void {
  const table = ledger.tables.direct?.backendNode;
  if (table === undefined) return;
  if (isFresh) clear(table, id);
  if (node === undefined) ledger.nodes.names[family].delete(id);
  else ledger.nodes.names[family].set(id, node);
  writeAddress(ledger, family, id);
}

/**
 * Of a service port with IPIP: a real server is its own node, and to others requests go by no tunnel. Whoever had a node
 * keeps it, for flows that exist; one whose node has the same address, in the network of its host, would be a real server.
 */
export function writeRealServer(
  ledger: Ledger,
  { family }: Pick<PortRecord, 'family'>,
  { id, isFresh }: { readonly id: number; readonly isFresh: boolean },
  backend: Pick<Backend, 'address' | 'isLocal' | 'node'>,
): void {
  const table = ledger.tables.direct?.backendNode;
  if (table === undefined) return;
  ledger.nodes.names[family].delete(id);
  if (isRealServer(backend)) storeWords(table, id, encodeNodeAddress(backend.address));
  else if (isFresh || decodeNodeAddress(element(table, id)) === backend.address) clear(table, id);
}

/** Undefined: what is written there does not matter, or stays. */
export function nodeAddressOf(
  { nodes: { names, peers } }: Ledger,
  family: Family,
  id: number,
): string | undefined {
  const node = names[family].get(id);
  const peer = node === undefined ? undefined : peers?.get(node);
  return peer && tunnelAddress(peer, family);
}

function writeAddress(ledger: Ledger, family: Family, id: number): void {
  const address = nodeAddressOf(ledger, family, id);
  if (address === undefined || ledger.tables.direct === undefined) return;
  storeWords(ledger.tables.direct.backendNode, id, encodeNodeAddress(address));
}

/** Writes the addresses of nodes that have come or got others. */
export function followNodes(ledger: Ledger, peers: Peers): void {
  const before = ledger.nodes.peers;
  if (before === peers) return;
  ledger.nodes.peers = peers;
  const isMoved = (name: string): boolean =>
    !isSame(before?.get(name)?.addresses, peers?.get(name)?.addresses);
  for (const family of FAMILIES) {
    for (const [id, name] of ledger.nodes.names[family]) {
      if (isMoved(name)) writeAddress(ledger, family, id);
    }
  }
}
