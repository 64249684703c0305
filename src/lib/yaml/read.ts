// SPDX-License-Identifier: Apache-2.0
// The text of a YAML or JSON file -> its documents. js-yaml, not `yaml`: 10,000 objects take it 0.26 s of processor time
// and 20 MiB, and `yaml` 2.8 s and 110 MiB (3.5 s and 320 MiB as items of a list). The event loop stands still for
// that long.
import { CORE_SCHEMA, loadAll, Type, YAMLException } from 'js-yaml';
import { reasonOf } from '../../errors.ts';

/** js-yaml's own limit for nesting. */
const DEEPEST = 100;

const MERGE_KEY = new Type('tag:yaml.org,2002:merge', {
  kind: 'scalar',
  resolve: (text) => text === '<<',
});
const WITH_MERGE_KEYS = CORE_SCHEMA.extend({ implicit: [MERGE_KEY] });

/** The line counts from 1. */
export type YamlResult =
  | { readonly ok: true; readonly documents: readonly unknown[] }
  | { readonly ok: false; readonly line?: number; readonly reason: string };

/** As a person writes a small file: `<<: *other` stands for the fields of another mapping, and no key occurs twice. */
export const readSettings = (text: string): YamlResult =>
  read(() => yamlDocuments(text, WITH_MERGE_KEYS));

/** Linear, and fast for JSON. Timestamps stay text, as in JSON. */
export const readObjects = (text: string): YamlResult =>
  read(() => jsonDocuments(text) ?? yamlDocuments(text, CORE_SCHEMA));

function read(documents: () => readonly unknown[]): YamlResult {
  try {
    return { ok: true, documents: documents() };
  } catch (error) {
    if (!(error instanceof YAMLException)) return { ok: false, reason: reasonOf(error) };
    const position = error.mark === undefined ? {} : { line: error.mark.line + 1 };
    return { ok: false, ...position, reason: error.reason };
  }
}

/** Undefined if the YAML parser is to judge: JSON is YAML, and that one's errors have line numbers. */
function jsonDocuments(text: string): readonly unknown[] | undefined {
  if (!text.trimStart().startsWith('{') || isDeep(text)) return undefined;
  try {
    return [JSON.parse(text)];
  } catch {
    return undefined;
  }
}

function yamlDocuments(text: string, schema: typeof CORE_SCHEMA): readonly unknown[] {
  const documents = loadAll(withoutTabs(text), undefined, { schema });
  if (text.includes('*')) refuseExpansion(documents, text.length);
  return documents;
}

/** YAML indents with spaces only. In JSON a tab is never part of a string, so nothing else changes. */
export function withoutTabs(text: string): string {
  return text.trimStart().startsWith('{') ? text.replaceAll('\t', ' ') : text;
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
