// SPDX-License-Identifier: Apache-2.0
// fl_peer: the other nodes of the cluster, each under all its addresses. Requests are sent to those that have a port.
// Geneve is accepted from all: another node may have read our annotation before we have read its own.
import type { Logger } from '../../../log.ts';
import type { NodeFacts } from '../../../plan/types.ts';
import type { BpfMap } from '../../../sys/native.ts';
import type { Entry } from '../../entry.ts';
import { codeOf } from '../loader/errors.ts';
import {
  decodeNodeAddress,
  decodePeer,
  encodeNodeAddress,
  encodePeer,
} from '../maps/direct-layout.ts';

type PeerMap = Pick<BpfMap, 'readAll' | 'put' | 'delete' | 'info'>;

/** Does not take requests. */
const NO_PORT = 0;

export interface Peers {
  /** Writes what differs from the last nodes; the first time, from the kernel. */
  follow(node: Followed): void;
  /** Compares with the kernel, writes what differs, and tells it. */
  audit(node: Followed): readonly Entry[];
}

type Followed = Pick<NodeFacts, 'peers'>;
type Ports = ReadonlyMap<string, number>;

export function createPeers(map: PeerMap, log: Pick<Logger, 'warn'>): Peers {
  let last: NodeFacts['peers'];
  let held: Ports | undefined;
  /** Whose element is not as it should be: it differs because of that, and is told once. */
  let refused: ReadonlySet<string> = new Set();
  const put = (address: string, port: number, isKnown: boolean): boolean => {
    try {
      map.put(encodeNodeAddress(address), encodePeer({ port }));
      return true;
    } catch (error) {
      const fields = { address, map: map.info.name, code: codeOf(error) };
      if (!refused.has(address)) log.warn(fields, isKnown ? LOST_PORT : LOST_NODE);
      return false;
    }
  };
  /** What programs have learnt of the way there is in the same element: it is written only if the port changes. */
  const write = (wanted: Ports, known: Ports): void => {
    for (const address of known.keys()) {
      if (!wanted.has(address)) map.delete(encodeNodeAddress(address));
    }
    const written = new Map<string, number>();
    const failed = new Set<string>();
    for (const [address, port] of wanted) {
      const before = known.get(address);
      const isWritten = before === port || put(address, port, before !== undefined);
      if (!isWritten) failed.add(address);
      const now = isWritten ? port : before;
      if (now !== undefined) written.set(address, now);
    }
    held = written;
    refused = failed;
  };
  return {
    follow({ peers }) {
      // Until all Nodes are known, those of an earlier agent are kept.
      if (peers === undefined || peers === last) return;
      write(portsOf(peers), held ?? portsIn(map));
      last = peers;
    },
    audit({ peers }) {
      // An earlier agent's, or a plan that is still to be synced.
      if (peers === undefined || peers !== last) return [];
      const known = portsIn(map);
      const before = refused;
      write(portsOf(peers), known);
      return differences(known, held ?? known).filter(({ id }) => !before.has(id.address));
    },
  };
}

const LOST_NODE = 'requests to this node are masqueraded, and none is taken from it';
const LOST_PORT = 'requests to this node go to its former port, or are masqueraded if it had none';

function differences(before: Ports, now: Ports): readonly PeerEntry[] {
  const stray = [...before.keys()].filter((address) => !now.has(address));
  const changed = [...now].filter(([address, port]) => before.get(address) !== port);
  return [
    ...stray.map((address) => entryOf(address, 'is no address of a Node')),
    ...changed.map(([address]) => entryOf(address, before.has(address) ? 'differs' : 'is missing')),
  ];
}

type PeerEntry = Entry & { readonly id: { readonly kind: 'peer'; readonly address: string } };

const entryOf = (address: string, what: string): PeerEntry => ({
  id: { kind: 'peer', address },
  text: `peer ${address} ${what}`,
});

/** An address that two Nodes claim is the first one's, by name. */
function portsOf(peers: NonNullable<NodeFacts['peers']>): Ports {
  const ports = new Map<string, number>();
  for (const { addresses, directReturnPort = NO_PORT } of peers.values()) {
    for (const address of addresses) {
      if (!ports.has(address)) ports.set(address, directReturnPort);
    }
  }
  return ports;
}

function portsIn(map: PeerMap): Ports {
  const { keys, values, count } = map.readAll();
  const { keySize, valueSize } = map.info;
  const ports = new Map<string, number>();
  for (let at = 0; at < count; at += 1) {
    const address = decodeNodeAddress(keys.subarray(at * keySize, (at + 1) * keySize));
    const { port } = decodePeer(values.slice(at * valueSize, (at + 1) * valueSize));
    if (address !== undefined) ports.set(address, port);
  }
  return ports;
}
