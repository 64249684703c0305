// SPDX-License-Identifier: Apache-2.0
// What the server was last seen to have, of one kind: versions, not contents. Turns complete lists and
// single events into changes, and refuses to believe at once that everything is gone.
import { isSame, type JsonRecord, recordOrEmpty } from '../../../lib/json.ts';
import type { Kind, ObjectChange, ObjectRef } from '../../../model/types.ts';
import type { ObservedObject } from '../decode/watch-events.ts';
import type { KindSpec } from '../kinds.ts';
import { LIMITS } from '../limits.ts';
import { isOlder } from './versions.ts';

/** All that is remembered of an object, and what stands for it in a list that shows it unchanged. */
export interface Known {
  readonly version: string;
  readonly uid: string;
}

/** A complete list. `isConfirmation`: read from the quorum, a while after a suspicious one. */
export interface CompleteList {
  /** By key; see Listing for which of them are in full. */
  readonly objects: ReadonlyMap<string, Known | ObservedObject>;
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
  /** The server turned out to be older than thought: what looked unchanged must be listed again. */
  readonly isDoubtful: boolean;
}

/** What became of an event; `disorder` = the store can no longer be trusted to follow. */
export type Applied =
  | { readonly kind: 'change'; readonly change: ObjectChange }
  | { readonly kind: 'nothing' | 'stale' | 'disorder' };

const NOTHING: Applied = { kind: 'nothing' };
const STALE: Applied = { kind: 'stale' };
const DISORDER: Applied = { kind: 'disorder' };

/** Joined, because a text that is added up is kept as its parts, and kept it is: one for each object. */
export const keyOf = ({ namespace, name }: ObjectRef): string => [namespace, name].join('/');

/** The other way: neither namespaces nor names have slashes. */
function refOf(kind: Kind, key: string): ObjectRef {
  const at = key.indexOf('/');
  return { kind, namespace: key.slice(0, at), name: key.slice(at + 1) };
}

/** Its uid is that of the cluster. */
const CLUSTER = 'default/kubernetes';

/** Share of objects that may vanish in one list without suspicion. */
const BELIEVABLE_LOSS = 0.9;

/**
 * A restored, re-created or wrong API server answers politely, with nothing or with another cluster's
 * objects. Believing it would tear down every Service while the Pods behind them still run.
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
  readonly #entries = new Map<string, Known>();
  /** Only of kinds that compare contents. */
  readonly #contents = new Map<string, JsonRecord>();
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

  get known(): ReadonlyMap<string, Known> {
    return this.#entries;
  }

  /** What is remembered of the object, if the observed says nothing new and its contents are not compared. */
  unchanged(observed: ObservedObject): Known | undefined {
    const known = this.#entries.get(keyOf(observed.ref));
    const isKnown = known !== undefined && isSameWrite(known, observed);
    return isKnown && !this.#spec.comparesContent ? known : undefined;
  }

  /** An object of a list that is not complete yet. Undefined = nothing new. */
  put(observed: ObservedObject): ObjectChange | undefined {
    return this.#put(observed, false);
  }

  /** An object that such a list has shown before and now shows deleted. Undefined = it was not there. */
  remove(ref: ObjectRef): ObjectChange | undefined {
    return this.#forget(keyOf(ref)) ? { type: 'remove', ref } : undefined;
  }

  /** Linear in the number of objects listed and known. */
  replace(list: CompleteList): Replacement {
    const { objects, version } = list;
    const stored = this.#entries.size;
    const isOldServer = isOlder(version, this.#version);
    const vanished: string[] = [];
    for (const key of this.#entries.keys()) if (!objects.has(key)) vanished.push(key);
    const reason = this.#suspicionOf(list, this.#unheld(vanished, list), isOldServer);
    const changes: ObjectChange[] = [];
    let isDoubtful = false;
    for (const [key, observed] of objects) {
      if (!('object' in observed)) {
        this.#held.delete(key);
        if (isOldServer) this.#entries.set(key, { version: '', uid: observed.uid });
        isDoubtful ||= isOldServer;
        continue;
      }
      const change = this.#put(observed, isOldServer);
      if (change !== undefined) changes.push(change);
    }
    for (const key of vanished) {
      const isConfirmed = list.isConfirmation && this.#held.has(key);
      if (!isConfirmed && (reason !== undefined || this.#held.has(key))) {
        this.#held.add(key);
        continue;
      }
      this.#forget(key);
      changes.push({ type: 'remove', ref: refOf(this.#spec.kind, key) });
    }
    this.#version = version;
    if (reason === undefined) return { changes, suspicion: undefined, isDoubtful };
    return {
      changes,
      suspicion: { reason, stored, listed: objects.size, held: this.#held.size },
      isDoubtful,
    };
  }

  /** An ADDED or MODIFIED event, if `isPut`, else a DELETED one. */
  apply(observed: ObservedObject, isPut: boolean): Applied {
    const key = keyOf(observed.ref);
    const known = this.#entries.get(key);
    // What is held may have its version from another store: that says nothing of this one's events.
    const last = this.#held.has(key) ? undefined : known;
    if (last !== undefined && isOlder(observed.version, last.version)) return STALE;
    if (isPut && last !== undefined && isSameWrite(last, observed)) return STALE;
    // Events of one watch come in order. One older than the stream may be late news of an object, or of
    // one deleted since: only a new list can tell.
    if (isOlder(observed.version, this.#version)) return DISORDER;
    this.#advance(observed.version);
    if (isPut && this.#spec.isWanted(observed.object)) {
      const change = this.#put(observed, false);
      return change === undefined ? NOTHING : { kind: 'change', change };
    }
    if (known === undefined) return NOTHING;
    this.#forget(key);
    return { kind: 'change', change: { type: 'remove', ref: observed.ref } };
  }

  /** A bookmark: everything up to this version was seen. */
  bookmark(version: string): void {
    this.#advance(version);
  }

  #advance(version: string): void {
    if (version !== '' && !isOlder(version, this.#version)) this.#version = version;
  }

  #put(observed: ObservedObject, isForced: boolean): ObjectChange | undefined {
    const { ref, version, uid, object } = observed;
    const key = keyOf(ref);
    const known = this.#entries.get(key);
    this.#held.delete(key);
    const isSameContent = this.#spec.comparesContent && this.#isSameContent(key, object);
    this.#entries.set(key, { version, uid });
    if (known !== undefined && !isForced) {
      if (isSameContent || isSameWrite(known, observed)) return undefined;
    }
    return { type: 'put', ref, object };
  }

  /** Remembers the contents for the next time. */
  #isSameContent(key: string, object: JsonRecord): boolean {
    const before = this.#contents.get(key);
    const now = withoutVersion(object);
    this.#contents.set(key, now);
    return before !== undefined && isSame(before, now);
  }

  #isForeign({ isForeign = false, objects }: CompleteList): boolean {
    const known = this.#entries.get(CLUSTER)?.uid;
    const found = objects.get(CLUSTER)?.uid;
    const isOther = known !== undefined && found !== undefined && known !== found;
    return isForeign || (this.#spec.kind === 'Service' && isOther);
  }

  #forget(key: string): boolean {
    this.#contents.delete(key);
    this.#held.delete(key);
    return this.#entries.delete(key);
  }

  /** How many of them no earlier list has held, or this one does not confirm. */
  #unheld(vanished: readonly string[], { isConfirmation }: CompleteList): number {
    return isConfirmation ? vanished.filter((key) => !this.#held.has(key)).length : vanished.length;
  }

  #suspicionOf(
    list: CompleteList,
    unseen: number,
    isOldServer: boolean,
  ): Suspicion['reason'] | undefined {
    const { objects, isConfirmation } = list;
    const isAnswered = isConfirmation && (this.#entries.size === 0 || this.#held.size > 0);
    if (this.#spec.isNeverEmpty && objects.size === 0 && !isAnswered) return 'list is empty';
    if (isOldServer && unseen > 0) return 'resourceVersion went backwards';
    if (this.#isForeign(list) && unseen > 0) return 'another cluster answers';
    const others = this.#entries.size - (isConfirmation ? this.#held.size : 0);
    if (unseen === 0 || this.#spec.comparesContent || others <= LIMITS.suspiciousAbove) {
      return undefined;
    }
    let replaced = 0;
    for (const [key, { uid }] of objects) {
      if ((this.#entries.get(key)?.uid ?? uid) !== uid) replaced += 1;
    }
    return unseen + replaced >= others * BELIEVABLE_LOSS
      ? 'everything vanished at once'
      : undefined;
  }
}

const isSameWrite = (known: Known, { version, uid }: ObservedObject): boolean =>
  version !== '' && known.version === version && known.uid === uid;

/** Every write moves the version: without it, equal contents are equal. */
function withoutVersion(object: JsonRecord): JsonRecord {
  const { metadata, ...rest } = object;
  return { ...rest, metadata: { ...recordOrEmpty(metadata), resourceVersion: undefined } };
}
