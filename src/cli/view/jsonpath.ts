// SPDX-License-Identifier: Apache-2.0
// kubectl's jsonpath templates: text, `{.items[*].name}`, `{"\n"}` and `{range .items[*]}...{end}`.
// Paths are evaluated by jsonpath-plus, which is imported on demand.
import type { JSONPath as Evaluate } from 'jsonpath-plus';
import { FairleadError, reasonOf } from '../../errors.ts';

type Find = (path: string, json: object) => readonly unknown[];

type Part =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'path'; readonly path: string }
  | { readonly kind: 'range'; readonly path: string; readonly parts: readonly Part[] };

/** A template without braces is one path. Throws FairleadError BAD_OPTION. */
export async function fillTemplate(template: string, value: object): Promise<string> {
  const { JSONPath } = (await import('jsonpath-plus')) as { JSONPath: typeof Evaluate };
  const find: Find = (path, json) => {
    try {
      const absolute = path.startsWith('$') ? path : `$${path.replace(/^@/, '')}`;
      // 'safe': filters are interpreted and never run as code.
      return JSONPath({ path: absolute, json, eval: 'safe', wrap: true }) as readonly unknown[];
    } catch (error) {
      throw badTemplate(`${path}: ${reasonOf(error)}`);
    }
  };
  const text = template.includes('{') ? template : `{${template}}`;
  return partsOf(tokensOf(text))
    .map((part) => filled(part, value, find))
    .join('');
}

const badTemplate = (reason: string): FairleadError =>
  new FairleadError('BAD_OPTION', `-o jsonpath: ${reason}`);

/** Alternating text inside and outside of braces; quoted text may contain braces. */
function tokensOf(template: string): readonly string[] {
  const tokens = template.match(/\{(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^}"'])*\}|[^{]+/g) ?? [];
  if (tokens.join('') !== template) throw badTemplate(`unclosed brace in ${template}`);
  return tokens;
}

function partsOf(tokens: readonly string[]): readonly Part[] {
  const stack: { readonly path: string; readonly parts: Part[] }[] = [{ path: '', parts: [] }];
  for (const token of tokens) {
    const inner = token.startsWith('{') ? token.slice(1, -1).trim() : undefined;
    const range = inner === undefined ? null : /^range\s+(.+)$/.exec(inner);
    if (range !== null) {
      stack.push({ path: range[1] ?? '', parts: [] });
      continue;
    }
    const closed = inner === 'end' ? stack.pop() : undefined;
    const top = stack.at(-1);
    if (top === undefined) throw badTemplate('{end} without {range}');
    top.parts.push(closed === undefined ? leafOf(token, inner) : { kind: 'range', ...closed });
  }
  const [root, unclosed] = stack;
  if (root === undefined || unclosed !== undefined) throw badTemplate('{range} without {end}');
  return root.parts;
}

function leafOf(text: string, inner: string | undefined): Part {
  if (inner === undefined) return { kind: 'text', text };
  if (!/^["']/.test(inner)) return { kind: 'path', path: inner };
  const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r' };
  const literal = inner
    .slice(1, -1)
    .replace(/\\(.)/g, (_, letter: string) => escapes[letter] ?? letter);
  return { kind: 'text', text: literal };
}

function filled(part: Part, value: unknown, find: Find): string {
  if (part.kind === 'text') return part.text;
  const found = foundIn(value, part.path, find);
  if (part.kind === 'path') return found.map(printed).join(' ');
  return found
    .map((item) => part.parts.map((inner) => filled(inner, item, find)).join(''))
    .join('');
}

function foundIn(value: unknown, path: string, find: Find): readonly unknown[] {
  if (['@', '$', '.'].includes(path)) return [value];
  return typeof value === 'object' && value !== null ? find(path, value) : [];
}

const printed = (value: unknown): string =>
  typeof value === 'object' ? JSON.stringify(value) : String(value);
