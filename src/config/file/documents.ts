// SPDX-License-Identifier: Apache-2.0
// The text of a configuration file -> its documents, each with the lines of its settings.
// kube-proxy reads only the first document of a file, so its own must come first.
import { isAbsent, isRecord, type JsonRecord, shown } from '../../lib/json.ts';
import { lineFinder } from '../../lib/yaml/lines.ts';
import { readSettings } from '../../lib/yaml/read.ts';
import { fieldName, type Locate } from '../diagnostics.ts';
import type { Diagnostic } from '../types.ts';
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
  const read = readSettings(text);
  if (!read.ok) {
    const location = read.line === undefined ? file : `${file}:${read.line}`;
    const problem = { location, field: '', reason: `is not YAML: ${read.reason}` };
    return { kubeProxy: undefined, own: undefined, problems: [problem] };
  }
  const findLine = lineFinder(text);
  const found = new Map<string, ConfigDocument>();
  const problems: Diagnostic[] = [];
  for (const [index, value] of read.documents.entries()) {
    if (isAbsent(value)) continue;
    const locate: Locate = (path) => {
      const line = findLine(`${index}`, path) ?? 1;
      return { location: `${file}:${line}`, field: fieldName(path) };
    };
    if (!isRecord(value)) {
      problems.push({ ...locate([]), reason: `must be a mapping, not ${shown(value)}` });
      continue;
    }
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
