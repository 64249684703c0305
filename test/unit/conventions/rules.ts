// SPDX-License-Identifier: Apache-2.0
// The conventions that a look at single files can decide, each with its reason.
import { layerOf } from './layers.ts';
import { findCode, type SourceFile, type Violation } from './source-file.ts';

export interface Rule {
  readonly name: string;
  check(file: SourceFile): readonly Violation[];
}

const isTypeScript = ({ path }: SourceFile): boolean => path.endsWith('.ts');
const isProduct = ({ path }: SourceFile): boolean => /^(src|tools)\/.*\.ts$/.test(path);
const isTest = ({ path }: SourceFile): boolean => path.startsWith('test/');
const isSource = ({ path, lines }: SourceFile): boolean =>
  /\.(ts|mjs|c|h|cc|go|sh)$/.test(path) || (lines[0] ?? '').startsWith('#!');
const isKernelCode = ({ path }: SourceFile): boolean =>
  /^bpf\/.*\.[ch]$/.test(path) || path.endsWith('.bpf.c');
const isTimeless = ({ path }: SourceFile): boolean =>
  ['lib', 'model', 'plan'].includes(layerOf(path) ?? '');
const isPure = ({ path }: SourceFile): boolean =>
  ['lib', 'model', 'plan', 'engine', 'config'].includes(layerOf(path) ?? '');

/** A rule about imports of product files, with the only files that are excepted. */
function onlyFrom(
  name: string,
  isMeant: (specifier: string) => boolean,
  excepted: (file: SourceFile) => boolean,
  why: string,
): Rule {
  return {
    name,
    check: (file) =>
      !isProduct(file) || excepted(file)
        ? []
        : file.imports
            .filter(({ specifier }) => isMeant(specifier))
            .map(({ specifier, line }) => ({
              path: file.path,
              line,
              reason: `imports ${specifier}: ${why}`,
            })),
  };
}

/** A rule that a pattern in the code breaks, for the files that are meant. */
function never(
  name: string,
  isMeant: (file: SourceFile) => boolean,
  pattern: RegExp,
  why: string,
): Rule {
  return { name, check: (file) => (isMeant(file) ? findCode(file, pattern, why) : []) };
}

export const RULES: readonly Rule[] = [
  onlyFrom(
    'only src/sys/native.ts imports the addon',
    (specifier) => /(^|\/)native\/|\.node$/.test(specifier) && !specifier.includes('sys/'),
    ({ path }) => path === 'src/sys/native.ts',
    'one file loads it, checks it and says what to do if it is missing',
  ),
  onlyFrom(
    'only src/sys/exec.ts starts programs',
    (specifier) => /^(node:)?child_process$/.test(specifier),
    ({ path }) => path === 'src/sys/exec.ts',
    'one place decides about time limits, output and shells (there is none)',
  ),
  onlyFrom(
    'layers 0-2 and 3a import no node:*',
    (specifier) => specifier.startsWith('node:'),
    // A digest is a function of its input.
    (file) => !isPure(file) || file.path === 'src/lib/digest.ts',
    'pure code runs anywhere and gives the same answer twice',
  ),
  never(
    'layers 0-2 know no clock, no chance, no promise',
    isTimeless,
    /\b(Date\.now|new Date|performance\.now|Math\.random|set(Timeout|Interval|Immediate)|async|await|Promise|process\.\w+)\b/,
    'a clock, chance or promise on a pure layer: take the value as an argument',
  ),
  never(
    'an engine decides nothing by clock or chance',
    // When a record was written is said in ticks of the programs' clock.
    (file) => isPure(file) && !isTimeless(file) && file.path !== 'src/engines/bpf/conn/clock.ts',
    /\b(Date\.now|new Date|Math\.random|set(Timeout|Interval|Immediate)|process\.\w+)\b/,
    'the same plan must give the same bytes: only durations may be measured',
  ),
  never(
    'only the log and the commands write to stdout and stderr',
    (file) =>
      isProduct(file) &&
      !/^(src\/(log\.ts|main\.ts|cli\/|probe\/run\/inside\.ts$)|tools\/)/.test(file.path),
    /\b(console\.|process\.(stdout|stderr)\b)/,
    'writes past the log: users parse one stream',
  ),
  never(
    'the plan knows no engine',
    ({ path }) => layerOf(path) === 'plan' || layerOf(path) === 'model',
    /\b(e?bpf|iptables|nftables|chain|libbpf)\b/i,
    'a word of one engine below the engines: the plan must render to any of them',
  ),
  never(
    'no any',
    isTypeScript,
    // [y], so that it does not find itself.
    /(:\s*an[y]\b|\bas an[y]\b|<an[y]\b|\ban[y]\[\]|[|&]\s*an[y]\b)/,
    'any turns the type checker off: use unknown and look',
  ),
  never(
    'no default exports',
    (file) => isTypeScript(file) && file.path !== 'vitest.config.ts',
    /^export default\b/,
    'a default export has a different name in every file that imports it',
  ),
  {
    name: 'no re-exports',
    // The addon is a package, with one file of types; the program has them through the one file that may import it.
    check: ({ path, imports }) =>
      imports
        .filter(() => !['native/index.d.ts', 'src/sys/native.ts'].includes(path))
        .filter((found) => found.isExport && found.path !== undefined)
        .map(({ line, specifier }) => ({
          path,
          line,
          reason: `re-exports ${specifier}, which hides where things live: import them from there`,
        })),
  },
  never(
    'no conditional compilation in kernel code',
    isKernelCode,
    /^\s*#\s*(if\b|ifdef\b|elif\b|else\b|ifndef\s+(?!FAIRLEAD_\w+_H\b))/,
    'every variant would have to be verified on every kernel: use a const volatile setting',
  ),
  never(
    'the addon knows no Kubernetes',
    ({ path }) => /^native\/.*\.(cc|h|ts)$/.test(path),
    /kube|endpoint|service|frontend|backend|clusterip|nodeport/i,
    'a word of the product in the addon: it binds libbpf and nothing else',
  ),
  {
    name: 'headers include no programs',
    check: (file) =>
      /^(bpf|native)\/.*\.h$/.test(file.path)
        ? file.lines.flatMap((text, index) =>
            /^\s*#\s*include\s+["<][^">]*\.(c|cc)[">]/.test(text)
              ? [{ path: file.path, line: index + 1, reason: 'a header includes a program file' }]
              : [],
          )
        : [],
  },
  {
    name: 'files stay small',
    check(file) {
      const limit = isTest(file) ? 600 : 400;
      const count = file.lines.length - 1;
      if (!isSource(file) || count <= limit) return [];
      const reason = `${count} lines, at most ${limit}: it does more than one job`;
      return [{ path: file.path, line: limit + 1, reason }];
    },
  },
  {
    name: 'every source file names its licence first',
    check(file) {
      if (!isSource(file)) return [];
      const index = (file.lines[0] ?? '').startsWith('#!') ? 1 : 0;
      const isShipped = file.path.startsWith('bpf/');
      const licence = isShipped ? 'GPL-2.0-only OR BSD-2-Clause' : 'Apache-2.0';
      const first = file.lines[index] ?? '';
      const named = /^(\/\/|#|\/\*) SPDX-License-Identifier: (.*?)( \*\/)?$/.exec(first)?.[2];
      if (named === licence) return [];
      // Programs of tests and benchmarks are loaded too, but copied into nothing: either licence will do.
      if (named !== undefined && isKernelCode(file) && !isShipped) return [];
      const reason = `line ${index + 1} must be "SPDX-License-Identifier: ${licence}"`;
      return [{ path: file.path, line: index + 1, reason }];
    },
  },
];
