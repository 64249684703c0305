// SPDX-License-Identifier: Apache-2.0
// The files last read, and the objects they define together: who wins, what changed since the last
// delivery, where a field stands. Pure bookkeeping: reading is done by manifests.ts.
import { isSame } from '../../lib/json.ts';
import { compareText } from '../../lib/names.ts';
import { lineFinder } from '../../lib/yaml/lines.ts';
import { refText } from '../../model/object-ref.ts';
import type { Problem } from '../../model/problem.ts';
import type { ObjectChange, ObjectRef } from '../../model/types.ts';
import { type Counting, createCounting } from './last-good/counting.ts';
import { isOfLost, lossBetween, lostOf } from './loss.ts';
import { type Manifest, parseManifests } from './parse.ts';
import type { RemovalGuard } from './removal-guard.ts';

/** What is known of one file. A broken one keeps the manifests of its last good text. */
interface ManifestFile {
  readonly findLine: (at: string, field: string) => number | undefined;
  readonly manifests: readonly Manifest[];
  readonly problems: readonly Problem[];
  /** The last text judged, good or not: the same text needs no second judgement. */
  readonly judged: string | undefined;
}

interface Delivered extends Manifest {
  readonly file: string;
}

export interface ManifestStore {
  readonly files: Map<string, ManifestFile>;
  readonly delivered: Map<string, Delivered>;
  /** What further files define again. */
  readonly copies: Delivered[];
  readonly counting: Counting;
}

export function emptyStore(): ManifestStore {
  return { files: new Map(), delivered: new Map(), copies: [], counting: createCounting() };
}

/** Takes a file's present text in. */
export function putText(store: ManifestStore, file: string, text: string): void {
  const before = store.files.get(file);
  if (before?.judged === text) return;
  const parsed = parseManifests(file, text);
  if (!parsed.ok) {
    store.files.set(file, { ...lastGood(before), problems: [parsed.problem], judged: text });
    return;
  }
  const findLine = lineFinder(text);
  const kept = parsed.hasUnnamed ? missingIn(parsed.manifests, lastGood(before)) : [];
  const problems = [...parsed.problems, ...kept.map(({ ref }) => keptProblem(file, ref))];
  const manifests = [...parsed.manifests, ...kept];
  store.files.set(file, { manifests, problems, findLine, judged: text });
}

/** Where an object cannot be named, one that is missing may be it: it is not taken for deleted. */
function missingIn(
  manifests: readonly Manifest[],
  before: Pick<ManifestFile, 'manifests'>,
): readonly Manifest[] {
  const present = new Set(manifests.map(({ ref }) => refText(ref)));
  return before.manifests.filter(({ ref }) => !present.has(refText(ref)));
}

const keptProblem = (file: string, object: ObjectRef): Problem => ({
  ...{ file, object },
  reason:
    'is no longer in the file, which has an object that cannot be read: its last good version keeps serving',
});

/** Notes that a file is there but cannot be read. */
export function putFailure(store: ManifestStore, file: string, reason: string): void {
  const problems = [{ file, reason }];
  store.files.set(file, { ...lastGood(store.files.get(file)), problems, judged: undefined });
}

function lastGood(before: ManifestFile | undefined): Omit<ManifestFile, 'problems' | 'judged'> {
  return before ?? { findLine: () => undefined, manifests: [] };
}

/**
 * What to tell about the difference to the last call, and all problems as they are now. An object that
 * several files define is taken from the first of them by path, within a file from the first place.
 * @param guard asked before Services lose anything
 */
export function changesOf(
  store: ManifestStore,
  guard: RemovalGuard = () => undefined,
): {
  readonly changes: readonly ObjectChange[];
  readonly problems: readonly Problem[];
  /** An object that is as it was is in another file now. */
  readonly hasMoved: boolean;
  /** Until removals that wait take effect; absent: none waits. */
  readonly leftMs?: number;
} {
  const changes: ObjectChange[] = [];
  const deliver = (change: ObjectChange): void => {
    const key = refText(change.ref);
    store.counting.delivered(key, store.delivered.get(key)?.object);
    changes.push(change);
  };
  let hasMoved = false;
  store.copies.length = 0;
  const problems: Problem[] = [];
  const wanted = new Map<string, Delivered>();
  for (const [file, state] of [...store.files].sort(([a], [b]) => compareText(a, b))) {
    problems.push(...state.problems);
    for (const manifest of state.manifests) {
      const key = refText(manifest.ref);
      const winner = wanted.get(key);
      if (winner === undefined) {
        wanted.set(key, { ...manifest, file });
      } else {
        problems.push(secondCopy(state, file, manifest, winner));
        store.copies.push({ ...manifest, file });
      }
    }
  }
  const loss = lossBetween(store.delivered, wanted);
  const waiting = guard(loss);
  if (waiting !== undefined) problems.push(waiting.problem);
  const lost = loss && waiting && lostOf(loss.before, loss.after);
  for (const [key, entry] of store.delivered) {
    if (lost !== undefined) {
      if (!wanted.has(key) || isOfLost(entry, lost)) wanted.set(key, entry);
    } else if (!wanted.has(key)) {
      deliver({ type: 'remove', ref: entry.ref });
    }
  }
  for (const [key, entry] of wanted) {
    const before = store.delivered.get(key);
    const isAsBefore = before !== undefined && isSame(before.object, entry.object);
    if (!isAsBefore) deliver(putOf(entry));
    else if (before.file !== entry.file) hasMoved = true;
  }
  store.delivered.clear();
  for (const [key, entry] of wanted) store.delivered.set(key, entry);
  return { changes, problems, hasMoved, ...(waiting && { leftMs: waiting.leftMs }) };
}

export const putOf = ({ ref, object, unknownFields }: Manifest): ObjectChange => ({
  ...{ type: 'put', ref, object },
  ...(unknownFields.length > 0 && { unknownFields }),
});

function secondCopy(state: ManifestFile, file: string, copy: Manifest, winner: Delivered): Problem {
  const line = state.findLine(copy.at, 'metadata.name');
  const reason = `already defined in ${winner.file}; this copy is ignored`;
  return { file, ...(line === undefined ? {} : { line }), reason, object: copy.ref };
}

/** Where a field of a delivered object stands, or the longest part of it that exists. */
export function locate(
  store: ManifestStore,
  ref: ObjectRef,
  field: string,
): { readonly file: string; readonly line: number } | undefined {
  const entry = store.delivered.get(refText(ref));
  if (entry === undefined) return undefined;
  const line = store.files.get(entry.file)?.findLine(entry.at, field);
  return { file: entry.file, line: line ?? 1 };
}
