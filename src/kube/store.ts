// SPDX-License-Identifier: Apache-2.0
// What the server was last seen to have, of one kind: versions, not contents. Turns complete lists and
// single events into changes, and refuses to believe at once that everything is gone. Floor 4, but pure.
import { isSame, type JsonRecord, recordOrEmpty } from '../lib/json.ts';
import type { ObjectChange, ObjectRef } from '../model/types.ts';
import type { Sighting } from './events.ts';
import type { KindSpec } from './kinds.ts';
import { LIMITS } from './limits.ts';
import { isOlder } from './versions.ts';

interface Entry {
  readonly ref: ObjectRef;
  readonly version: string;
  readonly uid: string;
  /** Only for kinds that compare contents. */
  readonly object: JsonRecord | undefined;
}

/** A complete list. `isConfirmation`: read from the quorum, a while after a suspicious one. */
export interface CompleteList {
  readonly sightings: ReadonlyMap<string, Sighting>;
  readonly version: string;
  readonly isConfirmation: boolean;
  /** Another cluster answers, or this one with another store: see ClusterIdentity. */
  readonly isForeign?: boolean;
}

/** Why a list is not believed yet, in words, with the counts that say so. */
export interface Suspicion {
  readonly reason:
    | 'list is empty'
    | 'everything vanished at once'
    | 'resourceVersion went backwards'
    | 'another cluster answers';
  /** Objects known before. */
  readonly stored: number;
  /** Objects in the list. */
  readonly listed: number;
  /** Removals held back until a second list confirms them. */
  readonly held: number;
}

export interface Replacement {
  /** Puts before removals: make before break. */
  readonly changes: readonly ObjectChange[];
  readonly suspicion: Suspicion | undefined;
}

/** What became of an event; `disorder` = the store can no longer be trusted to follow. */
export type Applied =
  | { readonly kind: 'change'; readonly change: ObjectChange }
  | { readonly kind: 'nothing' | 'stale' | 'disorder' };

const NOTHING: Applied = { kind: 'nothing' };
const STALE: Applied = { kind: 'stale' };
const DISORDER: Applied = { kind: 'disorder' };

export const keyOf = (ref: ObjectRef): string => `${ref.namespace}/${ref.name}`;

/** Its uid is that of the cluster. */
const CLUSTER = 'default/kubernetes';

/** Share of objects that may vanish in one list without suspicion. */
const BELIEVABLE_LOSS = 0.9;

/**
 * A restored, re-created or wrong API server answers politely, with nothing or with another cluster's
 * objects. Taking that for truth would tear down every Service while the Pods behind them still run.
 * So a list is suspicious if
 * - it is empty, of a kind that never is: every API server makes default/kubernetes;
 * - at least nine tenths of more than `LIMITS.suspiciousAbove` objects vanished at once (the same name
 *   with another uid counts as vanished);
 * - its resourceVersion is older than one seen before, and something vanished: etcd was restored;
 * - another cluster answers, as was found out elsewhere or as the uid of default/kubernetes tells, and
 *   something vanished.
 * Its puts count at once; its removals are *held*: the objects stay, until either an event or a list
 * shows them again, or a confirmation (a quorum list, `LIMITS.confirmDelayMs` later) lacks them too.
 * A failed list confirms nothing. Removals by DELETED events are never held: the server meant them.
 */
export class Store {
  readonly #spec: KindSpec;
  readonly #entries = new Map<string, Entry>();
  readonly #held = new Set<string>();
  #version = '';

  constructor(spec: KindSpec) {
    this.#spec = spec;
  }

  get size(): number {
    return this.#entries.size;
  }

  get held(): number {
    return this.#held.size;
  }

  /** The resourceVersion to go on from; '' = nothing was ever listed. */
  get version(): string {
    return this.#version;
  }

  /** Linear in the number of objects listed and known. */
  replace(list: CompleteList): Replacement {
    const { sightings, version } = list;
    const stored = this.#entries.size;
    const isOldServer = isOlder(version, this.#version);
    const vanished = [...this.#entries].filter(([key]) => !sightings.has(key));
    const unseen = vanished.filter(([key]) => !(list.isConfirmation && this.#held.has(key)));
    const reason = this.#whySuspicious(list, unseen.length, isOldServer);
    const changes: ObjectChange[] = [];
    for (const sighting of sightings.values()) {
      const change = this.#put(sighting, isOldServer);
      if (change !== undefined) changes.push(change);
    }
    for (const [key, { ref }] of vanished) {
      const isConfirmed = list.isConfirmation && this.#held.has(key);
      if (!isConfirmed && (reason !== undefined || this.#held.has(key))) {
        this.#held.add(key);
        continue;
      }
      this.#forget(key);
      changes.push({ type: 'remove', ref });
    }
    this.#version = version;
    if (reason === undefined) return { changes, suspicion: undefined };
    return {
      changes,
      suspicion: { reason, stored, listed: sightings.size, held: this.#held.size },
    };
  }

  /** An ADDED or MODIFIED event, if `isPut`, else a DELETED one. */
  apply(sighting: Sighting, isPut: boolean): Applied {
    const key = keyOf(sighting.ref);
    const known = this.#entries.get(key);
    // What is held may have its version from another store: that says nothing of this one's events.
    const last = this.#held.has(key) ? undefined : known;
    if (last !== undefined && isOlder(sighting.version, last.version)) return STALE;
    if (isPut && last !== undefined && isSameWrite(last, sighting)) return STALE;
    // Events of one watch come in order. One older than the stream may be late news of an object, or of
    // one deleted since: only a new list can tell.
    if (isOlder(sighting.version, this.#version)) return DISORDER;
    this.#advance(sighting.version);
    if (isPut && this.#spec.isWanted(sighting.object)) {
      const change = this.#put(sighting, false);
      return change === undefined ? NOTHING : { kind: 'change', change };
    }
    if (known === undefined) return NOTHING;
    this.#forget(key);
    return { kind: 'change', change: { type: 'remove', ref: sighting.ref } };
  }

  /** A bookmark: everything up to this version was seen. */
  bookmark(version: string): void {
    this.#advance(version);
  }

  #advance(version: string): void {
    if (version !== '' && !isOlder(version, this.#version)) this.#version = version;
  }

  #put(sighting: Sighting, isForced: boolean): ObjectChange | undefined {
    const { ref, version, uid, object } = sighting;
    const key = keyOf(ref);
    const known = this.#entries.get(key);
    this.#held.delete(key);
    const comparable = this.#spec.comparesContent ? withoutVersion(object) : undefined;
    this.#entries.set(key, { ref, version, uid, object: comparable });
    if (known !== undefined && !isForced) {
      if (isSameWrite(known, sighting)) return undefined;
      if (comparable !== undefined && isSame(known.object, comparable)) return undefined;
    }
    return { type: 'put', ref, object };
  }

  #isForeign({ isForeign = false, sightings }: CompleteList): boolean {
    const known = this.#entries.get(CLUSTER)?.uid;
    const found = sightings.get(CLUSTER)?.uid;
    const isOther = known !== undefined && found !== undefined && known !== found;
    return isForeign || (this.#spec.kind === 'Service' && isOther);
  }

  #forget(key: string): void {
    this.#entries.delete(key);
    this.#held.delete(key);
  }

  #whySuspicious(
    list: CompleteList,
    unseen: number,
    isOldServer: boolean,
  ): Suspicion['reason'] | undefined {
    const { sightings, isConfirmation } = list;
    const isAnswered = isConfirmation && (this.#entries.size === 0 || this.#held.size > 0);
    if (this.#spec.isNeverEmpty && sightings.size === 0 && !isAnswered) return 'list is empty';
    if (isOldServer && unseen > 0) return 'resourceVersion went backwards';
    if (this.#isForeign(list) && unseen > 0) return 'another cluster answers';
    const others = this.#entries.size - (isConfirmation ? this.#held.size : 0);
    if (this.#spec.comparesContent || others <= LIMITS.suspiciousAbove) return undefined;
    const replaced = [...sightings].filter(([key, { uid }]) => {
      const known = this.#entries.get(key);
      return known !== undefined && known.uid !== uid;
    }).length;
    return unseen > 0 && unseen + replaced >= others * BELIEVABLE_LOSS
      ? 'everything vanished at once'
      : undefined;
  }
}

const isSameWrite = (known: Entry, { version, uid }: Sighting): boolean =>
  version !== '' && known.version === version && known.uid === uid;

/** Every write moves the version: without it, equal contents are equal. */
function withoutVersion(object: JsonRecord): JsonRecord {
  const { metadata, ...rest } = object;
  return { ...rest, metadata: { ...recordOrEmpty(metadata), resourceVersion: undefined } };
}
