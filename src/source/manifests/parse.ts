// SPDX-License-Identifier: Apache-2.0
// One file's text -> the API objects in it. What is inside an object is the model's business.
import type { JsonRecord } from '../../lib/json.ts';
import { lineFinder } from '../../lib/yaml/lines.ts';
import { readObjects } from '../../lib/yaml/read.ts';
import type { Problem } from '../../model/problem.ts';
import type { ObjectRef } from '../../model/types.ts';
import { unknownFields } from './known-fields.ts';
import { candidatesOf, nameObject } from './naming.ts';

/** One object, and where in its file it stands: an address of lines.ts. */
export interface Manifest {
  readonly ref: ObjectRef;
  readonly object: JsonRecord;
  readonly at: string;
  readonly unknownFields: readonly string[];
}

/** Of an unreadable text nothing is known: `problem` alone. Else some objects may still be refused. */
export type ParsedText =
  | {
      readonly ok: true;
      readonly manifests: readonly Manifest[];
      readonly problems: readonly Problem[];
      /** An object could not be named: it may be one that the file had before. */
      readonly hasUnnamed: boolean;
    }
  | { readonly ok: false; readonly problem: Problem };

/** Linear in the text; several documents, and List kinds, are taken apart. */
export function parseManifests(file: string, text: string): ParsedText {
  if (text.trim() === '') {
    // Also the state of a file between truncation and first write, when nobody means "no objects".
    return { ok: false, problem: { file, reason: 'the file is empty: add objects or delete it' } };
  }
  const read = readObjects(text);
  if (!read.ok) {
    const { line, reason } = read;
    return { ok: false, problem: { file, ...(line === undefined ? {} : { line }), reason } };
  }
  const manifests: Manifest[] = [];
  const problems: Problem[] = [];
  const foreign: string[] = [];
  let hasUnnamed = false;
  const findLine = lineFinder(text);
  const placeOf = (at: string, field: string): Pick<Problem, 'file' | 'line'> => {
    const line = findLine(at, field);
    return { file, ...(line === undefined ? {} : { line }) };
  };
  for (const candidate of read.documents.flatMap(candidatesOf)) {
    const named = nameObject(candidate);
    if (named.ok) {
      const { ref, object } = named;
      const unknown = unknownFields(ref.kind, object);
      manifests.push({ ref, object, at: candidate.at, unknownFields: unknown });
    } else if (named.isForeign === true) {
      foreign.push(named.reason);
    } else {
      hasUnnamed = true;
      problems.push({ ...placeOf(candidate.at, named.field), reason: named.reason });
    }
  }
  return { ok: true, manifests, problems: [...problems, ...leftOut(file, foreign)], hasUnnamed };
}

/** One line a file, however many objects of other kinds it has. */
function leftOut(file: string, kinds: readonly string[]): readonly Problem[] {
  if (kinds.length === 0) return [];
  const reason = `objects of other kinds are not read: ${[...new Set(kinds)].sort().join(', ')}`;
  return [{ file, reason, isWarning: true, isNote: true }];
}
