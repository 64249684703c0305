// SPDX-License-Identifier: Apache-2.0
// The connections that an earlier agent has pinned: for one that runs another engine, and only has to know whether they live.
import { basename } from 'node:path';
import { FairleadError } from '../../../../errors.ts';
import { FAMILIES, type Protocol } from '../../../../model/types.ts';
import { type BpfMap, openPinnedMap } from '../../../../sys/native.ts';
import type { ConnectionView } from '../../../connections.ts';
import { tickOfNow } from '../../conn/clock.ts';
import {
  CONN_MAPS,
  type ConnTables,
  connTables,
  expire,
  isExpired,
} from '../../conn/conn-table.ts';
import { readConns } from '../../conn/reader.ts';
import { viewOf } from '../../flows/packet-connections.ts';
import type { ConnRecord } from '../../layout/conn-layout.ts';
import { protocolOf } from '../../layout/layout.ts';
import { mapPin } from '../../layout/versions.ts';
import { openPin } from '../loader/open-pinned.ts';
import { formerPin } from '../loader/pins.ts';
import { closeAll } from '../loader/undo.ts';

export interface FormerFlow {
  readonly protocol: Protocol;
  readonly view: ConnectionView;
}

/** Every connection. Throws OTHER_LAYOUT if another version has pinned them. */
export function formerFlows(bpfRoot: string): readonly FormerFlow[] {
  const found: FormerFlow[] = [];
  withFormerConns(bpfRoot, (record) => {
    if (record.backendId === 0) return;
    found.push({ protocol: protocolOf(record.protocol), view: viewOf(record) });
  });
  return found;
}

/** Ends the connection of the record: its next packet begins another one. */
export type End = () => void;

/** Calls `use` for each record, which it must not keep. Nothing is pinned: for none. Throws as `formerFlows`. */
export function withFormerConns(
  bpfRoot: string,
  use: (record: ConnRecord, end: End) => void,
): void {
  const maps = openTable(bpfRoot);
  if (maps === undefined) return;
  try {
    eachConn(
      connTables((name) => mapOf(maps, name)),
      use,
    );
  } finally {
    closeAll([...maps.values()]);
  }
}

function eachConn(tables: ConnTables, use: (record: ConnRecord, end: End) => void): void {
  const now = tickOfNow();
  for (const family of FAMILIES) {
    const table = tables[family];
    const visit = (record: ConnRecord): void => {
      if (isExpired(record.seenTick, now)) return;
      use(record, () => void expire(table, record.index, record.bornTick, now));
    };
    for (const _ of readConns(table, visit));
  }
}

/**
 * Ends UDP connections whose one question is answered, as those of DNS clients are. Netfilter, which serves next, knows nothing of
 * their SNAT ports: the answers to what it masquerades to one of them would go to the client that had it before. And the next
 * socket that the client's kernel gives the port of such a connection would be led to its endpoint, which may be gone by then.
 * Throws OTHER_LAYOUT.
 */
export function forgetAnswered(bpfRoot: string): void {
  withFormerConns(bpfRoot, (record, end) => {
    if (protocolOf(record.protocol) === 'UDP' && record.isHalfOpen && record.state !== 'new') end();
  });
}

const MAPS = [...CONN_MAPS, 'fl_packet'] as const;
type OpenMaps = ReadonlyMap<string, BpfMap>;

/** undefined: one is not pinned, or not any more. */
function openTable(bpfRoot: string): OpenMaps | undefined {
  const maps = new Map<string, BpfMap>();
  const close = (): undefined => closeAll([...maps.values()]) as undefined;
  try {
    for (const name of MAPS) {
      const path = formerPin(bpfRoot, name);
      if (path === undefined) return close();
      if (basename(path) !== mapPin(name)) throw otherLayout(path);
      maps.set(name, openPin(bpfRoot, path, openPinnedMap));
    }
    return maps;
  } catch (error) {
    close();
    if (error instanceof FairleadError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

const otherLayout = (path: string): FairleadError =>
  new FairleadError(
    'OTHER_LAYOUT',
    `${path} is of another version of fairlead: run \`fairlead cleanup\` of that version`,
  );

function mapOf(maps: OpenMaps, name: string): BpfMap {
  const map = maps.get(name);
  if (map === undefined) throw new TypeError(`${name} is not open`);
  return map;
}
