// SPDX-License-Identifier: Apache-2.0
// The text of a configuration file -> its documents, each with the lines of its settings.
// kube-proxy reads only the first document of a file, so its own must come first.
import {
  type Document,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseAllDocuments,
} from 'yaml';
import { reasonOf } from '../../errors.ts';
import { isRecord, type JsonRecord, shown } from '../../lib/json.ts';
import { fieldName, type Locate } from '../diagnostics.ts';
import type { Diagnostic, FieldPath } from '../types.ts';
import { OWN_API, OWN_KIND } from './fairlead-schema.ts';
import { KUBE_PROXY_API, KUBE_PROXY_KIND } from './schema.ts';

export interface ConfigDocument {
  readonly value: JsonRecord;
  readonly locate: Locate;
}

export interface ConfigDocuments {
  readonly kubeProxy: ConfigDocument | undefined;
  readonly own: ConfigDocument | undefined;
  readonly problems: readonly Diagnostic[];
}

const KINDS = [
  { kind: KUBE_PROXY_KIND, api: KUBE_PROXY_API },
  { kind: OWN_KIND, api: OWN_API },
] as const;

/** Linear. Invalid YAML, an unknown kind, and a kind that occurs twice are problems with their line. */
export function readDocuments(file: string, text: string): ConfigDocuments {
  const lines = new LineCounter();
  const parsed = parseAllDocuments(text, { lineCounter: lines, merge: true });
  const found = new Map<string, ConfigDocument>();
  const problems: Diagnostic[] = [];
  for (const document of parsed) {
    const locate = locator(file, document, lines);
    const value = contentOf(document, locate, problems, file);
    if (value === undefined) continue;
    const kind = kindOf(value, locate, problems);
    if (kind === undefined) continue;
    const reason = validateOrder(kind, found);
    if (reason === undefined) found.set(kind, { value, locate });
    else problems.push({ ...locate(['kind']), field: kind, reason });
  }
  if (found.size === 0 && problems.length === 0) {
    problems.push({ location: file, field: '', reason: `holds no ${KUBE_PROXY_KIND}` });
  }
  return { kubeProxy: found.get(KUBE_PROXY_KIND), own: found.get(OWN_KIND), problems };
}

/** Why this document is not allowed here; undefined if it is. */
function validateOrder(kind: string, found: ReadonlyMap<string, unknown>): string | undefined {
  if (found.has(kind)) return 'occurs twice in this file: keep one of them';
  if (kind === KUBE_PROXY_KIND && found.has(OWN_KIND)) {
    return 'must be the first document: kube-proxy reads no other';
  }
  return undefined;
}

/** The document as plain values; undefined if it is empty or unreadable. */
function contentOf(
  document: Document,
  locate: Locate,
  problems: Diagnostic[],
  file: string,
): JsonRecord | undefined {
  const [error] = document.errors;
  if (error !== undefined) {
    const line = error.linePos?.[0].line;
    const location = line === undefined ? file : `${file}:${line}`;
    const reason = error.message.split(/ at line |\n/, 1)[0] ?? error.message;
    problems.push({ location, field: '', reason: `is not YAML: ${reason}` });
    return undefined;
  }
  const value = plainValue(document, (reason) =>
    problems.push({ ...locate([]), reason: `is not YAML: ${reason}` }),
  );
  if (value === null || value === undefined) return undefined;
  if (isRecord(value)) return value;
  problems.push({ ...locate([]), reason: `must be a mapping, not ${shown(value)}` });
  return undefined;
}

/** An alias without anchor, or one that expands without bounds, has no value. */
function plainValue(document: Document, refuse: (reason: string) => void): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    refuse(reasonOf(error).split('\n', 1)[0] ?? '');
    return undefined;
  }
}

function kindOf(value: JsonRecord, locate: Locate, problems: Diagnostic[]): string | undefined {
  const known = KINDS.find(({ kind }) => kind === value['kind']);
  if (known === undefined) {
    const kinds = KINDS.map(({ kind }) => kind).join(' or ');
    const given = value['kind'] === undefined ? 'it is missing' : `not ${shown(value['kind'])}`;
    problems.push({ ...locate(['kind']), reason: `must be ${kinds}, ${given}` });
    return undefined;
  }
  if (value['apiVersion'] !== known.api) {
    const reason = `of a ${known.kind} must be ${known.api}, not ${shown(value['apiVersion'])}`;
    problems.push({ ...locate(['apiVersion']), reason });
    return undefined;
  }
  return known.kind;
}

/** The line of the longest prefix of the path that exists. */
function locator(file: string, document: Document, lines: LineCounter): Locate {
  return (path) => {
    const offset = offsetOf(document, path);
    return { location: `${file}:${lines.linePos(offset).line}`, field: fieldName(path) };
  };
}

function offsetOf(document: Document, path: FieldPath): number {
  let node: unknown = document.contents;
  let offset = document.contents?.range?.[0] ?? document.range?.[0] ?? 0;
  for (const step of path) {
    const next = stepInto(node, step);
    if (next === undefined) return offset;
    offset = next.offset ?? offset;
    node = next.node;
  }
  return offset;
}

function stepInto(
  node: unknown,
  step: string | number,
): { readonly node: unknown; readonly offset: number | undefined } | undefined {
  if (isSeq(node)) {
    const item = node.items[Number(step)];
    return isNode(item) ? { node: item, offset: item.range?.[0] } : undefined;
  }
  if (!isMap(node)) return undefined;
  for (const { key, value } of node.items) {
    if (isScalar(key) && String(key.value) === String(step)) {
      return { node: value, offset: key.range?.[0] };
    }
  }
  return undefined;
}
