// SPDX-License-Identifier: Apache-2.0
// The BPF engine of an earlier agent, of any version, when this agent serves with another one. Without frontends its programs begin no
// connection, and go on to translate the packets of those that they began; they are detached when those have ended.
import { basename } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { FairleadError } from '../../../../errors.ts';
import { type BpfMap, openPinnedMap } from '../../../../sys/native.ts';
import type { Predecessor, PredecessorFacts } from '../../../predecessor.ts';
import { type ConnRecord, secondsOf } from '../../layout/conn-layout.ts';
import { encodeU32, protocolOf } from '../../layout/layout.ts';
import { RESET_UNKNOWN_AT, withoutResets } from '../../layout/packet-layout.ts';
import { mapPin, type PinnedMap } from '../../layout/versions.ts';
import { fieldAt } from '../../migration/fields.ts';
import { pinnedFrontends } from '../inspect/pinned.ts';
import { listPinned, removePinned } from '../loader/cleanup.ts';
import { lockExistingPins, type PinHolder } from '../loader/lock.ts';
import { openPin } from '../loader/open-pinned.ts';
import { formerPin } from '../loader/pins.ts';
import { readFields } from '../migration/records.ts';
import { type FormerFlow, forgetAnswered, formerFlows, withFormerConns } from './former-flows.ts';

const FRONTENDS = ['fl_frontend4', 'fl_frontend6'] as const;
/** As long as conntrack keeps a UDP flow that was answered. */
const UDP_SECONDS = 180;
/** Clients of DNS ask again after five seconds. */
const UNANSWERED_MS = 10_000;

export function bpfPredecessor(bpfRoot: string, holder: PinHolder): Predecessor {
  return {
    engine: 'bpf',
    look: async () => lookAt(bpfRoot),
    held: async () => (lookAt(bpfRoot).isServing ? pinnedFrontends(bpfRoot) : []),
    stopServing: async () => {
      const lock = lockExistingPins(bpfRoot, holder);
      try {
        for (const name of FRONTENDS) emptyMap(bpfRoot, name);
        stopResets(bpfRoot);
        forgetIfKnown(bpfRoot);
      } finally {
        lock?.close();
      }
    },
    endUnanswered: async () => {
      const before = exchangesOf(bpfRoot);
      if (before.size === 0) return;
      await setTimeout(UNANSWERED_MS);
      endUnanswered(bpfRoot, before);
    },
    remove: async () => void removePinned(bpfRoot, holder),
  };
}

/** Another version's table is not read: its connections keep their ports until they expire. */
function forgetIfKnown(bpfRoot: string): void {
  try {
    forgetAnswered(bpfRoot);
  } catch (error) {
    if (!(error instanceof FairleadError && error.code === 'OTHER_LAYOUT')) throw error;
  }
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

/**
 * Connections that the next engine begins are unknown to these programs: they must not be reset if this engine comes
 * back. A version without that field resets none.
 */
function stopResets(bpfRoot: string): void {
  withMap(bpfRoot, 'fl_packet', (map, path) => {
    const settings = map.get(encodeU32(0));
    const at = resetsAt(bpfRoot, path);
    if (settings !== undefined && at !== undefined)
      map.put(encodeU32(0), withoutResets(settings, at));
  });
}

function resetsAt(bpfRoot: string, path: string): number | undefined {
  const pin = basename(path);
  if (pin === mapPin('fl_packet')) return RESET_UNKNOWN_AT;
  const fields = readFields(bpfRoot, pin)?.value;
  if (fields === undefined) return undefined;
  return fieldAt({ fields, bytes: 0 }, /(?:^|\.)reset_unknown_from$/)?.at;
}

/** Pinned by this version or by another one. undefined: it is not pinned. */
function withMap<T>(
  bpfRoot: string,
  name: PinnedMap,
  use: (map: BpfMap, path: string) => T,
): T | undefined {
  const path = formerPin(bpfRoot, name);
  const map = path === undefined ? undefined : openIfPinned(bpfRoot, path);
  if (path === undefined || map === undefined) return undefined;
  try {
    return use(map, path);
  } finally {
    map.close();
  }
}

/** `fairlead cleanup` may remove it meanwhile. */
function openIfPinned(bpfRoot: string, path: string): BpfMap | undefined {
  try {
    return openPin(bpfRoot, path, openPinnedMap);
  } catch (error) {
    if (error instanceof FairleadError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

/** Of packets: sockets that were translated when they connected need no program any more. */
function liveFlows(bpfRoot: string): number {
  const now = Number(process.hrtime.bigint() / 1_000_000_000n);
  let count = 0;
  for (const flow of formerFlows(bpfRoot)) if (isLive(flow, now)) count += 1;
  return count;
}

function isLive({ protocol, view }: FormerFlow, nowSeconds: number): boolean {
  if (view.state === 'closed') return false;
  if (protocol === 'TCP' && view.state !== 'new') return true;
  return nowSeconds - (view.seenSeconds ?? 0) < UDP_SECONDS;
}

// UDP connections of a retired engine whose endpoint may be gone. Nobody tells its programs: they would send a client that keeps
// its port there for as long as it asks.

/** A question that has been sent just now may yet be answered. */
const ANSWER_SECONDS = 2;

/** Datagrams of both sides. */
interface Exchange {
  readonly asked: number;
  readonly answered: number;
}

/** By the record and when it began. */
type Exchanges = ReadonlyMap<string, Exchange>;

function exchangesOf(bpfRoot: string): Exchanges {
  const found = new Map<string, Exchange>();
  withFormerConns(bpfRoot, (record) => {
    if (isUdp(record)) found.set(keyOf(record), exchange(record));
  });
  return found;
}

/**
 * Ends those that have been asked since `before`, and have not answered. Their next datagram is the next engine's, which knows the
 * endpoints there are; so is that of a connection in which nobody answers ever.
 */
function endUnanswered(bpfRoot: string, before: Exchanges): void {
  const now = Number(process.hrtime.bigint() / 1_000_000_000n);
  withFormerConns(bpfRoot, (record, end) => {
    const then = before.get(keyOf(record));
    if (then !== undefined && isUdp(record) && isUnanswered(record, then, now)) end();
  });
}

function isUnanswered(record: ConnRecord, then: Exchange, nowSeconds: number): boolean {
  const { asked, answered } = exchange(record);
  if (answered > then.answered || asked <= then.asked) return false;
  return asked > then.asked + 1 || nowSeconds - secondsOf(record.seenTick) >= ANSWER_SECONDS;
}

const isUdp = (record: ConnRecord): boolean => protocolOf(record.protocol) === 'UDP';

const keyOf = ({ family, index, bornTick }: ConnRecord): string => `${family} ${index} ${bornTick}`;

const exchange = ({ traffic }: ConnRecord): Exchange => ({
  asked: traffic[0] ?? 0,
  answered: traffic[2] ?? 0,
});
