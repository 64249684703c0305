// SPDX-License-Identifier: Apache-2.0
// The BPF engine of an earlier agent, when this agent serves with another one. Without frontends its programs begin no
// connection, and go on to translate the packets of those that they began; they are detached when those have ended.
import { FairleadError } from '../../../errors.ts';
import type { Connection } from '../../connections.ts';
import type { Predecessor, PredecessorFacts } from '../../predecessor.ts';
import { pinnedConnections } from '../flows/pinned.ts';
import { encodeU32 } from '../maps/layout.ts';
import { withoutResets } from '../maps/packet-layout.ts';
import { listPinned, removePinned } from './cleanup.ts';
import { lockExistingPins, type PinHolder } from './lock.ts';
import { openPinned } from './open-pinned.ts';

const FRONTENDS = ['fl_frontend4', 'fl_frontend6'] as const;
/** As long as conntrack keeps a UDP flow that was answered. */
const UDP_SECONDS = 180;

export function bpfPredecessor(bpfRoot: string, holder: PinHolder): Predecessor {
  return {
    engine: 'bpf',
    look: async () => lookAt(bpfRoot),
    stopServing: async () => {
      const lock = lockExistingPins(bpfRoot, holder);
      try {
        for (const name of FRONTENDS) emptyMap(bpfRoot, name);
        stopResets(bpfRoot);
      } finally {
        lock?.close();
      }
    },
    remove: async () => void removePinned(bpfRoot, holder),
  };
}

function lookAt(bpfRoot: string): PredecessorFacts {
  const { maps, links } = listPinned(bpfRoot);
  if (maps.length + links.length === 0) return { isServing: false, isLeft: false, connections: 0 };
  const isServing = FRONTENDS.some((name) => countOf(bpfRoot, name) > 0);
  return { isServing, isLeft: true, connections: isServing ? undefined : liveFlows(bpfRoot) };
}

function countOf(bpfRoot: string, name: (typeof FRONTENDS)[number]): number {
  return withMap(bpfRoot, name, (map) => map.readAll().count) ?? 0;
}

function emptyMap(bpfRoot: string, name: (typeof FRONTENDS)[number]): void {
  withMap(bpfRoot, name, (map) => {
    const { keys } = map.readAll();
    if (keys.length > 0) map.deleteBatch(keys);
  });
}

/** Connections that the next engine begins are unknown to these programs: they must not be reset if this engine comes back. */
function stopResets(bpfRoot: string): void {
  withMap(bpfRoot, 'fl_packet', (map) => {
    const settings = map.get(encodeU32(0));
    if (settings !== undefined) map.put(encodeU32(0), withoutResets(settings));
  });
}

function withMap<T>(
  bpfRoot: string,
  name: Parameters<typeof openPinned>[1],
  use: (map: ReturnType<typeof openPinned>) => T,
): T | undefined {
  let map: ReturnType<typeof openPinned>;
  try {
    map = openPinned(bpfRoot, name);
  } catch (error) {
    if (error instanceof FairleadError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
  try {
    return use(map);
  } finally {
    map.close();
  }
}

/** Of packets: sockets that were translated when they connected need no program any more. */
function liveFlows(bpfRoot: string): number {
  let connections: ReturnType<typeof pinnedConnections>;
  try {
    connections = pinnedConnections(bpfRoot);
  } catch (error) {
    if (error instanceof FairleadError && error.code === 'NOT_FOUND') return 0;
    throw error;
  }
  try {
    const now = Number(process.hrtime.bigint() / 1_000_000_000n);
    let count = 0;
    for (const connection of connections.all('packet')) if (isLive(connection, now)) count += 1;
    return count;
  } finally {
    connections.close();
  }
}

function isLive(connection: Connection, nowSeconds: number): boolean {
  const view = connection.read();
  if (view === undefined || view.state === 'closed' || view.state === 'orphan') return false;
  if (connection.protocol === 'TCP' && view.state !== 'new') return true;
  return nowSeconds - (view.seenSeconds ?? 0) < UDP_SECONDS;
}
