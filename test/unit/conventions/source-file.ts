// SPDX-License-Identifier: Apache-2.0
// A source file as the conventions look at it: its path, its code without comments, its imports.
import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';

export interface Import {
  /** 1-based. */
  readonly line: number;
  /** As written: `node:fs`, `ipaddr.js`, `../lib/ip.ts`. */
  readonly specifier: string;
  /** Path in the tree of an import of ours; undefined for packages. */
  readonly path: string | undefined;
  /** True if it exports again what it imports. */
  readonly isExport: boolean;
  /** `import type`: nothing of it is left when the program runs. */
  readonly isType: boolean;
}

export interface SourceFile {
  /** From the root of the tree, with slashes. */
  readonly path: string;
  readonly lines: readonly string[];
  /** The same lines, comments and the insides of strings blanked. */
  readonly code: readonly string[];
  readonly imports: readonly Import[];
}

export interface Violation {
  readonly path: string;
  readonly line: number;
  readonly reason: string;
}

export function sourceFile(path: string, text: string): SourceFile {
  return {
    path,
    lines: text.split('\n'),
    code: blank(text, true).split('\n'),
    imports: path.endsWith('.ts') ? importsOf(path, blank(text, false)) : [],
  };
}

const SKIPPED = new Set(['node_modules', 'dist', 'dist.fresh', 'build', 'coverage', '.git']);

/** Every file of the tree that people write, by path. */
export function readTree(root: string, folder = ''): readonly SourceFile[] {
  return readdirSync(posix.join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(folder, entry.name);
    // A file may have such a name: scripts/build.
    if (entry.isDirectory()) return SKIPPED.has(entry.name) ? [] : readTree(root, path);
    if (!entry.isFile() || entry.name === 'package-lock.json') return [];
    return [sourceFile(path, readFileSync(posix.join(root, path), 'utf8'))];
  });
}

/** All places of the code where the pattern matches, comments and strings not counted. */
export function findCode(file: SourceFile, pattern: RegExp, reason: string): readonly Violation[] {
  return file.code.flatMap((text, index) =>
    pattern.test(text) ? [{ path: file.path, line: index + 1, reason }] : [],
  );
}

/**
 * Spaces for comments (and string contents, if asked); line breaks stay, so lines keep their numbers.
 * Regular expressions are not understood: a quote in one blanks at most the rest of its line.
 */
function blank(text: string, withStrings: boolean): string {
  const token =
    /\/\/[^\n]*|\/\*[\s\S]*?\*\/|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\[\s\S]|[^`\\])*`/g;
  return text.replace(token, (match) => {
    if (match.startsWith('/')) return match.replace(/[^\n]/g, ' ');
    if (!withStrings) return match;
    return match.charAt(0) + match.slice(1, -1).replace(/[^\n]/g, ' ') + match.charAt(0);
  });
}

function importsOf(path: string, code: string): readonly Import[] {
  const pattern =
    /^(?:import|export)\s(?:[^;'"]*?\sfrom\s+)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gm;
  return [...code.matchAll(pattern)].map((match) => {
    const specifier = match[1] ?? match[2] ?? '';
    return {
      line: code.slice(0, match.index).split('\n').length,
      specifier,
      path: specifier.startsWith('.') ? posix.join(posix.dirname(path), specifier) : undefined,
      isExport: match[0].startsWith('export'),
      isType: /^import\s+type\s/.test(match[0]),
    };
  });
}
