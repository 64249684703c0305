// SPDX-License-Identifier: Apache-2.0
// fl_peer: the other nodes of the cluster, each under all its addresses. Requests are sent to those that have a port.
// Geneve is accepted from all: another node may have read our annotation before we have read its own.
import type { Logger } from '../../../log.ts';
import type { NodeFacts } from '../../../plan/types.ts';
import type { Entry } from '../../entry.ts';
import { type RowFailure, TrackedTable } from '../../tracked-table.ts';
import { decodePingKey } from '../layout/packet-layout.ts';
import {
  differenceText,
  type RowCodec,
  type RowTable,
  rowsOf,
  warnOfRows,
} from '../layout/rows.ts';
import { decodePeer, encodeNodeAddress, encodePeer } from './direct-layout.ts';

/** Does not take requests. */
const NO_PORT = 0;

export interface Peers {
  /** Writes what differs from the last nodes; the first time, from the kernel. */
  follow(node: Followed): void;
  /** Compares with the kernel, writes what differs, and tells it. */
  audit(node: Followed): readonly Entry[];
}

type Followed = Pick<NodeFacts, 'peers'>;

/** What programs have learnt of the way there is in the same element: it is written only if the port changes. */
const PORTS: RowCodec<string, number> = {
  encodeKey: encodeNodeAddress,
  decodeKey: decodePingKey,
  encodeValue: (port) => encodePeer({ port }),
  decodeValue: (bytes) => decodePeer(bytes).port,
};

export function createPeers(table: RowTable, log: Pick<Logger, 'warn'>): Peers {
  const rows = new TrackedTable(rowsOf(table, PORTS));
  let last: NodeFacts['peers'];
  const warn = (failed: readonly RowFailure<string, number>[]): void =>
    warnOfRows(log, table, failed, consequence);
  return {
    follow({ peers }) {
      // Until all Nodes are known, those of an earlier agent are kept.
      if (peers === undefined) return;
      if (peers !== last) rows.setAll(portsOf(peers));
      last = peers;
      if (!rows.isDone) warn(rows.write());
    },
    audit({ peers }) {
      // An earlier agent's, or a plan that is still to be synced.
      if (peers === undefined || peers !== last) return [];
      const { repaired, failed } = rows.audit();
      warn(failed);
      return repaired.map((difference) => ({
        id: { kind: 'peer', address: difference.key },
        text: `peer ${difference.key} ${differenceText(difference, 'is no address of a Node')}`,
      }));
    },
  };
}

function consequence({ programmed, desired }: RowFailure<string, number>): string {
  if (desired === undefined) return 'requests from this address are still taken as of a node';
  return programmed === undefined
    ? 'requests to this node are masqueraded, and none is taken from it'
    : 'requests to this node go to its former port, or are masqueraded if it had none';
}

/** An address that two Nodes claim is the first one's, by name. */
function portsOf(peers: NonNullable<NodeFacts['peers']>): ReadonlyMap<string, number> {
  const ports = new Map<string, number>();
  for (const { addresses, directReturnPort = NO_PORT } of peers.values()) {
    for (const address of addresses) {
      if (!ports.has(address)) ports.set(address, directReturnPort);
    }
  }
  return ports;
}
