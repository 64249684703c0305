// SPDX-License-Identifier: Apache-2.0
// One file's text -> the API objects in it. What is inside an object is the model's business.
// js-yaml, not `yaml`, which reads the configuration file: 10,000 Services take it 0.11 to 0.28 s of CPU, and
// `yaml` 1.8 to 2.3 s. The event loop stands still for that long. trace.ts reads the same whole texts.
import { CORE_SCHEMA, loadAll, YAMLException } from 'js-yaml';
import { reasonOf } from '../../errors.ts';
import type { JsonRecord } from '../../lib/json.ts';
import type { Problem } from '../../model/problem.ts';
import type { ObjectRef } from '../../model/types.ts';
import { unknownFields } from './known-fields.ts';
import { candidatesOf, nameObject } from './naming.ts';
import { lineFinder, withoutTabs } from './trace.ts';

/** js-yaml's own limit for nesting. */
const DEEPEST = 100;

/** One object, and where in its file it stands: an address of trace.ts. */
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
  let documents: readonly unknown[];
  try {
    documents = loadDocuments(text);
  } catch (error) {
    if (!(error instanceof YAMLException)) {
      return { ok: false, problem: { file, reason: reasonOf(error) } };
    }
    const position = error.mark === undefined ? {} : { line: error.mark.line + 1 };
    return { ok: false, problem: { file, ...position, reason: error.reason } };
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
  for (const candidate of documents.flatMap(candidatesOf)) {
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

function loadDocuments(text: string): readonly unknown[] {
  if (text.trimStart().startsWith('{') && !isDeep(text)) {
    try {
      return [JSON.parse(text)];
    } catch {
      // JSON is YAML, and the YAML parser's errors have line numbers: let it judge.
    }
  }
  // Core schema: timestamps stay text, as in JSON.
  const documents = loadAll(withoutTabs(text), undefined, { schema: CORE_SCHEMA });
  if (text.includes('*')) refuseExpansion(documents, text.length);
  return documents;
}

/**
 * True if brackets nest deeper than the YAML parser allows: it then says so, where JSON.parse would
 * hand over what no recursive reader survives. Brackets in strings may only cost the fast path.
 */
function isDeep(text: string): boolean {
  let depth = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code === 0x7b || code === 0x5b) depth += 1;
    else if (code === 0x7d || code === 0x5d) depth -= 1;
    if (depth > DEEPEST) return true;
  }
  return false;
}

/**
 * Aliases can make a small text stand for an enormous, even endless, object. Written out, an object
 * takes at least one character per node: what needs more than its text has, nobody wrote by hand.
 */
function refuseExpansion(documents: readonly unknown[], limit: number): void {
  const pending: unknown[] = [...documents];
  let nodes = pending.length;
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value !== 'object' || value === null) continue;
    const children: readonly unknown[] = Object.values(value);
    nodes += children.length;
    if (nodes > limit) {
      throw new YAMLException('aliases expand to more than the file holds: write the values out');
    }
    for (const child of children) pending.push(child);
  }
}
