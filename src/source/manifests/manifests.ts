// SPDX-License-Identifier: Apache-2.0
// A folder of manifests as a source of API objects, live. It never decides what an object means, and
// never takes "cannot read" for "is gone": what was good stays until something better is read.
import { resolve } from 'node:path';
import type { Problem } from '../../model/problem.ts';
import type { ObjectChange, ObjectRef } from '../../model/types.ts';
import { listManifests } from './files.ts';
import { countedIn, fill } from './last-good/contents.ts';
import type { Keep } from './last-good/keeper.ts';
import { changesOf, emptyStore, locate } from './manifest-store.ts';
import { refresh } from './refresh.ts';
import { createRemovalGuard } from './removal-guard.ts';
import { openFolderWatches } from './watch.ts';

/** Events come in bursts: one save of an editor is three of them. */
const SETTLE_MS = 10;
/** A folder that never rests is read at least this often. */
const MAX_SETTLE_MS = 200;
/** Catches what no event tells: network file systems, lost events, far link targets. */
const RESCAN_MS = 5_000;
/** While the folder is missing nothing can be watched. */
const MISSING_RESCAN_MS = 200;

const CLOCK = { nowMs: () => Date.now(), monotonicMs: () => performance.now() };

export interface ManifestListener {
  /** Never called with nothing. The first call holds every object; if versions were kept, these, and the second what has changed. */
  onChanges(changes: readonly ObjectChange[]): void;
  /** Once: the folder has been read as a whole and its objects were delivered. */
  onSynced(): void;
  /** All problems as they are now, whenever they differ from the last call's. */
  onProblems(problems: readonly Problem[]): void;
}

export interface ManifestSource {
  problems(): readonly Problem[];
  /** File and line of a field of an object that was delivered. */
  locate(ref: ObjectRef, field: string): { file: string; line: number } | undefined;
  /** The delivered changes, in their order, and those of them that do not count: earlier versions do. */
  judged(changes: readonly ObjectChange[], refused: ReadonlySet<ObjectChange>): void;
  /** Nothing is called after it. Idempotent. */
  close(): void;
}

/** Reads the folder once. */
export async function readManifests(dir: string): Promise<{
  readonly changes: readonly ObjectChange[];
  readonly problems: readonly Problem[];
  readonly locate: ManifestSource['locate'];
}> {
  const store = emptyStore();
  await refresh(store, await listManifests(dir), new Map());
  return { ...changesOf(store), locate: (ref, field) => locate(store, ref, field) };
}

export interface FollowOptions {
  /** How long a change waits that would remove most Services. */
  readonly removalDelayMs?: number;
  /** Keeps the versions that count for the next start; absent: they are forgotten. */
  readonly keep?: Keep;
}

/** Follows the folder until it is closed; it need not exist yet. */
export function openManifests(
  dir: string,
  listener: ManifestListener,
  { removalDelayMs = 0, keep }: FollowOptions = {},
): ManifestSource {
  const top = resolve(dir);
  const guard = createRemovalGuard(top, removalDelayMs, CLOCK);
  const store = emptyStore();
  const keeper = keep?.(() => countedIn(store));
  const signatures = new Map<string, string>();
  let problems: readonly Problem[] = [];
  let recalled: readonly ObjectChange[] | undefined;
  let isJudged = false;
  let isSynced = false;
  let isClosed = false;
  let isReading = false;
  let isStale = false;
  let timer: NodeJS.Timeout | undefined;
  let latestStart = 0;

  /** Reads after a short rest, or at the latest when the longest wait is over. */
  const schedule = (): void => {
    isStale = true;
    if (isReading || isClosed) return;
    const now = performance.now();
    if (latestStart === 0) latestStart = now + MAX_SETTLE_MS;
    wait(Math.max(0, Math.min(SETTLE_MS, latestStart - now)));
  };
  const wait = (delayMs: number): void => {
    clearTimeout(timer);
    timer = setTimeout(() => void read(), delayMs);
  };
  const watches = openFolderWatches(schedule);

  const read = async (): Promise<void> => {
    isReading = true;
    isStale = false;
    latestStart = 0;
    const listing = await listManifests(top, (path, identity) => {
      if (!isClosed) watches.add(path, identity);
    });
    recalled ??= fill(store, (await keeper?.recall()) ?? []);
    await refresh(store, listing, signatures);
    isReading = false;
    if (isClosed) return;
    watches.keepOnly(listing.folders);
    const leftMs = deliver(listing.isComplete);
    if (isClosed) return;
    if (isStale) schedule();
    else wait(Math.min(leftMs, listing.isComplete ? RESCAN_MS : MISSING_RESCAN_MS));
  };

  /** Returns how long to wait at most until the next reading. */
  const deliver = (isComplete: boolean): number => {
    const delta = changesOf(store, guard);
    if (delta.hasMoved && isJudged) keeper?.changed();
    const now = [...delta.problems, ...unwatched(watches.failures())];
    const hasNewProblems = JSON.stringify(now) !== JSON.stringify(problems);
    problems = now;
    if (hasNewProblems) listener.onProblems(problems);
    if (recalled !== undefined && recalled.length > 0 && !isClosed) listener.onChanges(recalled);
    recalled = [];
    if (delta.changes.length > 0 && !isClosed) listener.onChanges(delta.changes);
    if (isComplete && !isSynced && !isClosed) {
      isSynced = true;
      listener.onSynced();
    }
    return delta.leftMs ?? RESCAN_MS;
  };

  void read();
  return {
    problems: () => problems,
    locate: (ref, field) => locate(store, ref, field),
    judged(changes, refused) {
      // The first plan may come before the folder is read: what is kept is not read yet, either.
      if (recalled === undefined) return;
      store.counting.judged(changes, refused);
      if (changes.length > 0 || !isJudged) keeper?.changed();
      isJudged = true;
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
      watches.close();
      keeper?.close();
    },
  };
}

function unwatched(failures: ReadonlyMap<string, string>): readonly Problem[] {
  return [...failures].map(([file, why]) => ({
    file,
    reason: `cannot be watched, changes are noticed after ${RESCAN_MS / 1000} s: ${why}`,
  }));
}
