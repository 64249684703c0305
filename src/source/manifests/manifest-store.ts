// SPDX-License-Identifier: Apache-2.0
// The files last read, and the objects they define together: who wins, what changed since the last
// delivery, where a field stands. Pure bookkeeping: reading is done by manifests.ts.
import { isSame, type JsonRecord } from '../../lib/json.ts';
import { compareText } from '../../lib/names.ts';
import type { ObjectChange, ObjectRef } from '../../model/types.ts';
import { refText } from '../../plan/types.ts';
import { type Manifest, parseManifests } from './parse.ts';
import type { ManifestProblem } from './problem.ts';
import { lineFinder } from './trace.ts';

/** What is known of one file. A broken one keeps the manifests of its last good text. */
interface Sheet {
  /** Of the text that `manifests` came from. */
  readonly text: string;
  readonly findLine: (at: string, field: string) => number | undefined;
  readonly manifests: readonly Manifest[];
  readonly problems: readonly ManifestProblem[];
  /** The last text judged, good or not: the same text needs no second judgement. */
  readonly judged: string | undefined;
}

interface Delivered {
  readonly ref: ObjectRef;
  readonly object: JsonRecord;
  readonly file: string;
  readonly at: string;
}

export interface Shelf {
  readonly sheets: Map<string, Sheet>;
  readonly delivered: Map<string, Delivered>;
}

export function emptyShelf(): Shelf {
  return { sheets: new Map(), delivered: new Map() };
}

/** Takes a file's present text in. */
export function putText(shelf: Shelf, file: string, text: string): void {
  const before = shelf.sheets.get(file);
  if (before?.judged === text) return;
  const parsed = parseManifests(file, text);
  shelf.sheets.set(
    file,
    parsed.ok
      ? { ...parsed, text, findLine: lineFinder(text), judged: text }
      : { ...lastGood(before), problems: [parsed.problem], judged: text },
  );
}

/** Notes that a file is there but cannot be read. */
export function putFailure(shelf: Shelf, file: string, reason: string): void {
  const problems = [{ file, reason }];
  shelf.sheets.set(file, { ...lastGood(shelf.sheets.get(file)), problems, judged: undefined });
}

function lastGood(before: Sheet | undefined): Omit<Sheet, 'problems' | 'judged'> {
  return before ?? { text: '', findLine: () => undefined, manifests: [] };
}

/**
 * What to tell about the difference to the last call, and all problems as they are now. An object that
 * several files define is taken from the first of them by path, within a file from the first place.
 */
export function settle(shelf: Shelf): {
  readonly changes: readonly ObjectChange[];
  readonly problems: readonly ManifestProblem[];
} {
  const changes: ObjectChange[] = [];
  const problems: ManifestProblem[] = [];
  const wanted = new Map<string, Delivered>();
  for (const [file, sheet] of [...shelf.sheets].sort(([a], [b]) => compareText(a, b))) {
    problems.push(...sheet.problems);
    for (const manifest of sheet.manifests) {
      const key = refText(manifest.ref);
      const winner = wanted.get(key);
      if (winner === undefined) wanted.set(key, { ...manifest, file });
      else problems.push(secondCopy(sheet, file, manifest, winner));
    }
  }
  for (const [key, { ref }] of shelf.delivered) {
    if (!wanted.has(key)) changes.push({ type: 'remove', ref });
  }
  for (const [key, { ref, object }] of wanted) {
    const before = shelf.delivered.get(key);
    if (before === undefined || !isSame(before.object, object)) {
      changes.push({ type: 'put', ref, object });
    }
  }
  shelf.delivered.clear();
  for (const [key, entry] of wanted) shelf.delivered.set(key, entry);
  return { changes, problems };
}

function secondCopy(
  sheet: Sheet,
  file: string,
  copy: Manifest,
  winner: Delivered,
): ManifestProblem {
  const line = sheet.findLine(copy.at, 'metadata.name');
  const reason = `${refText(copy.ref)} is already defined in ${winner.file}: this copy is ignored`;
  return { file, ...(line === undefined ? {} : { line }), reason, object: copy.ref };
}

/** Where a field of a delivered object stands, or the longest part of it that exists. */
export function locate(
  shelf: Shelf,
  ref: ObjectRef,
  field: string,
): { readonly file: string; readonly line: number } | undefined {
  const entry = shelf.delivered.get(refText(ref));
  if (entry === undefined) return undefined;
  const line = shelf.sheets.get(entry.file)?.findLine(entry.at, field);
  return { file: entry.file, line: line ?? 1 };
}
