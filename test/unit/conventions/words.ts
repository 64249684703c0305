// SPDX-License-Identifier: Apache-2.0
// Words that the glossary in CONTRIBUTING.md replaced, and the rooms that are free of them. A room is added
// here when it is clean, and stays so.
import type { SourceFile } from './source-file.ts';

interface Replaced {
  readonly word: RegExp;
  readonly by: string;
}

export const REPLACED: readonly Replaced[] = [
  { word: /\bin step\b/i, by: 'in sync' },
  { word: /\btaken ?over\b|\bisTakenOver\b/i, by: 'adopted' },
  { word: /\bthe own (Node|node)\b/, by: "this node's Node, local" },
  { word: /\bput right again\b|\bright again\b/i, by: 'restored' },
  { word: /\b(a|the|some) trouble\b/i, by: 'problem, error' },
  { word: /\bsign of life\b/i, by: 'activity' },
  { word: /\bthe begin\b|\bbegin of\b/i, by: 'the start' },
  { word: /\brefused connections see\b/i, by: 'return' },
  { word: /\btried again\b/i, by: 'retried' },
  { word: /\b(Face|face)\b/, by: 'servers' },
  { word: /\b(shelf|sheet)(es|s)?\b/i, by: 'manifest store, manifest' },
  { word: /\bsurroundings\b/i, by: 'node context, discovery environment' },
  { word: /\bsighting(s)?\b/i, by: 'observed object' },
  { word: /(?<![-/])\bslim(Node|Service|Slice)?\b/i, by: 'prune' },
  { word: /\bSyncGate\b|\bthe gate\b|#gate\b/, by: 'initial sync' },
  { word: /\bPatience\b/i, by: 'idle timeout' },
  { word: /\b(distrust)\b/i, by: 'force relist' },
  { word: /\bremarks?\b/i, by: 'diagnostic' },
  { word: /\b(settle[sd]?|sortOut|contest(s|ed)?)\b/i, by: 'resolve, categorize, conflict' },
  { word: /(?<!Math\.)\b(floor|house|circle)s?\b/i, by: 'layer, conventions, cycle' },
  { word: /\btenure\b|\bREPLY_MAPPED\b/i, by: 'connection count, reverse-translated' },
  { word: /\b(PORTION|portion)s?\b/, by: 'batch' },
  { word: /\bunused longest\b|\blongest unused\b/i, by: 'least recently used' },
  { word: /\b(Path|Paths)Value\b|\bstruct path\b|\bclusterIpPaths\b/, by: 'traffic rule' },
  {
    word: /\b(insidePlace|getInPlace)\b|: Place\b|\b(const|readonly) places?\b/,
    by: 'sandbox, location',
  },
  { word: /\b(Taking|taking)\b(?! (it|them|over|place))/, by: 'allocation' },
  { word: /\b(createPieces|Pieces)\b|\bin pieces of\b/, by: 'chunk' },
  { word: /\bclaims? (it|them|an?|the)\b/i, by: 'own, ownership' },
  { word: /\bhalving\b|\bconclude\b|\bsortOut\b/i, by: 'binary search, try, categorize' },
  { word: /\b(function|const) #?why[A-Z]\w*/, by: 'validate*, reason*' },
];

/** Each free of the words above. Only this list and its test name them. */
export const CLEAN_ROOMS: readonly string[] = [
  ...['src/', 'bpf/', 'native/', 'scripts/', 'deploy/', 'examples/', 'bench/', 'docs/'],
  ...['test/conformance/', 'test/integration/', 'test/mutants/', 'test/support/', 'test/unit/'],
  ...['README.md', 'SECURITY.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md'],
  ...['Dockerfile', 'package.json', 'rolldown.config.mjs', 'vitest.config.ts'],
];

const EXEMPT = /^test\/unit\/conventions\/words\.(test\.)?ts$|\.svg$/;

/** `path:line: word, say: ...` for each word that a room still uses. */
export function replacedWords(files: readonly SourceFile[]): readonly string[] {
  const checked = files.filter(({ path }) => !EXEMPT.test(path));
  return checked.flatMap(({ path, lines }) =>
    lines.flatMap((line, index) =>
      REPLACED.flatMap(({ word, by }) => {
        const found = word.exec(line)?.[0];
        return found === undefined ? [] : [`${path}:${index + 1}: "${found}", say: ${by}`];
      }),
    ),
  );
}
