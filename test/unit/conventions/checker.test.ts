// SPDX-License-Identifier: Apache-2.0
// The checker itself can fail: each rule is shown a small tree that breaks it, and one that does not.
import { describe, expect, test } from 'vitest';
import { checkFolders } from './folders.ts';
import { checkCycles, checkLayers } from './layers.ts';
import { RULES } from './rules.ts';
import { sourceFile } from './source-file.ts';

const LICENCE = '// SPDX-License-Identifier: Apache-2.0\n';
const BPF_LICENCE = '/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n';

function broken(path: string, text: string): readonly string[] {
  const file = sourceFile(path, text);
  return RULES.flatMap((rule) => rule.check(file).map(({ line }) => `${rule.name}: line ${line}`));
}

const bad: readonly [path: string, text: string, rule: string, line: number][] = [
  [
    'src/plan/a.ts',
    "import { x } from '../../native/index.d.ts';\n",
    'only src/sys/native.ts imports the addon',
    2,
  ],
  [
    'tools/demo/a.ts',
    "import { spawn } from 'node:child_process';\n",
    'only src/sys/exec.ts starts programs',
    2,
  ],
  [
    'src/cli/a.ts',
    "const x = await import('child_process');\n",
    'only src/sys/exec.ts starts programs',
    2,
  ],
  [
    'src/lib/a.ts',
    "import {\n  isIP,\n} from 'node:net';\n",
    'layers 0-2 and 3a import no node:*',
    2,
  ],
  [
    'src/model/a.ts',
    '\nconst now = Date.now();\n',
    'layers 0-2 know no clock, no chance, no promise',
    3,
  ],
  [
    'src/engines/bpf/rows/service-port/render.ts',
    'const x = Math.random();\n',
    'an engine decides nothing by clock or chance',
    2,
  ],
  [
    'src/runtime/a.ts',
    "process.stdout.write('x');\n",
    'only the log and the commands write to stdout and stderr',
    2,
  ],
  ['src/plan/a.ts', 'const bpf = 1;\n', 'the plan knows no engine', 2],
  ['test/a.ts', 'let x: any;\n', 'no any', 2],
  ['src/plan/a.ts', 'export default 1;\n', 'no default exports', 2],
  ['src/plan/a.ts', "export { x } from './b.ts';\n", 'no re-exports', 2],
  ['src/plan/a.ts', "export type * from './b.ts';\n", 'no re-exports', 2],
  ['native/a.cc', 'int endpoints;\n', 'the addon knows no Kubernetes', 2],
  ['native/a.h', '#include "a.cc"\n', 'headers include no programs', 2],
  ['src/cli/a.ts', '\n'.repeat(400), 'files stay small', 401],
  ['test/a.ts', '\n'.repeat(600), 'files stay small', 601],
];

describe('each rule refuses', () => {
  for (const [path, text, rule, line] of bad) {
    test(`${rule}: ${path}`, () => {
      expect(broken(path, LICENCE + text)).toEqual([`${rule}: line ${line}`]);
    });
  }

  test('kernel code that is compiled conditionally', () => {
    const rule = 'no conditional compilation in kernel code';
    const text =
      '#ifndef FAIRLEAD_A_H\n#define FAIRLEAD_A_H\n#ifdef X\n#endif\n#if 1\n#endif\n#endif\n';
    expect(broken('bpf/a.h', BPF_LICENCE + text)).toEqual([`${rule}: line 4`, `${rule}: line 6`]);
  });

  test('sources without their licence, behind #! too', () => {
    const rule = 'every source file names its licence first';
    expect(broken('src/cli/a.ts', '\n')).toEqual([`${rule}: line 1`]);
    expect(broken('scripts/a', '#!/bin/sh\n')).toEqual([`${rule}: line 2`]);
    expect(broken('bpf/a.h', LICENCE)).toEqual([`${rule}: line 1`]);
    expect(broken('scripts/a', '#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n')).toEqual([]);
  });
});

describe('nothing is refused for', () => {
  const good: readonly [why: string, path: string, text: string][] = [
    [
      'words in comments and strings',
      'src/plan/a.ts',
      "// bpf, any: Date.now()\nconst x = 'a bpf: any';\n",
    ],
    ['block comments', 'native/a.cc', '/*\n * for kube endpoints\n */\n'],
    [
      'the one file that may',
      'src/sys/native.ts',
      "import type { X } from '../../native/index.d.ts';\n",
    ],
    [
      'the one file that starts programs',
      'src/sys/exec.ts',
      "import { spawn } from 'node:child_process';\n",
    ],
    ['the log', 'src/log.ts', 'process.stderr.write(line);\n'],
    ['types of packages', 'src/log.ts', "export type { Logger } from 'pino';\n"],
    ['words that contain any', 'src/plan/a.ts', 'const company: anything = many;\n'],
  ];
  for (const [why, path, text] of good) {
    test(why, () => expect(broken(path, LICENCE + text)).toEqual([]));
  }
});

describe('layers', () => {
  const imports = (path: string, specifier: string): readonly string[] =>
    checkLayers([sourceFile(path, `\nimport type { X } from '${specifier}';\n`)]).map(
      ({ line, reason }) => `${line}: ${reason}`,
    );
  const rows: readonly [path: string, specifier: string, reason: string | undefined][] = [
    [
      'src/lib/a.ts',
      '../model/types.ts',
      'layer 0 (lib) imports src/model/types.ts of layer 1 (model)',
    ],
    ['src/errors.ts', './log.ts', 'layer 0 (lib) imports src/log.ts of layer 3b (system)'],
    [
      'src/model/a.ts',
      '../plan/types.ts',
      'layer 1 (model) imports src/plan/types.ts of layer 2 (plan)',
    ],
    ['src/plan/a.ts', '../engines/dataplane.ts', 'layer 2 (plan) imports'],
    ['src/plan/a.ts', '../sys/exec.ts', 'layer 2 (plan) imports'],
    ['src/sys/a.ts', '../plan/types.ts', 'layer 3b (system) imports'],
    ['src/engines/bpf/rows/a.ts', '../kernel/maps/kernel.ts', 'layer 3a (engine) imports'],
    ['src/engines/bpf/kernel/a.ts', '../../../agent/agent.ts', 'layer 4 (kernel) imports'],
    [
      'src/source/apiserver/a.ts',
      '../../engines/bpf/kernel/open.ts',
      'source/apiserver imports engines/bpf: they stand side by side',
    ],
    [
      'src/source/apiserver/watch/a.ts',
      '../../manifests/parse.ts',
      'source/apiserver imports source/manifests',
    ],
    [
      'src/agent/a.ts',
      '../cli/commands/run.ts',
      'layer 5a (agent) imports src/cli/commands/run.ts of layer 6 (program)',
    ],
    ['src/agent/a.ts', '../server/servers.ts', 'layer 5a (agent) imports'],
    ['src/server/a.ts', '../instance/compose.ts', 'layer 5b (service) imports'],
    ['src/instance/a.ts', '../cli/output.ts', 'layer 5c (instance) imports'],
    ['src/nowhere/a.ts', './b.ts', 'belongs to no layer'],
    ['src/lib/a.ts', './b.ts', undefined],
    ['src/plan/a.ts', '../model/types.ts', undefined],
    ['src/engines/bpf/kernel/maps/a.ts', '../../layout/layout.ts', undefined],
    ['src/source/apiserver/watch/a.ts', '../decode/b.ts', undefined],
    ['src/engines/bpf/rows/a.ts', '../../../sys/native.ts', undefined],
    [
      'src/agent/a.ts',
      '../engines/bpf/kernel/dataplane.ts',
      'outside src/engines the interface alone is known; src/instance/dataplanes.ts composes engines',
    ],
    ['src/observe/a.ts', '../engines/bpf/rows/render.ts', 'the interface alone is known'],
    ['src/cli/commands/a.ts', '../../engines/bpf/inspect/view.ts', 'the interface alone is known'],
    ['src/instance/dataplanes.ts', '../engines/bpf/kernel/open.ts', undefined],
    ['src/agent/a.ts', '../engines/dataplane.ts', undefined],
    ['src/cli/a.ts', '../agent/agent.ts', undefined],
    ['src/main.ts', 'commander', undefined],
  ];
  test('outside kernel/ an engine names the type of a system call, and never calls it', () => {
    const file = sourceFile(
      'src/engines/bpf/rows/a.ts',
      "import { n } from '../../../sys/native.ts';\n",
    );
    expect(checkLayers([file])).toHaveLength(1);
  });

  for (const [path, specifier, reason] of rows) {
    test(`${path} -> ${specifier}`, () => {
      const found = imports(path, specifier);
      if (reason === undefined) expect(found).toEqual([]);
      else expect(found).toEqual([expect.stringContaining(reason)]);
    });
  }

  test('cycles are found once, with all their files', () => {
    const file = (name: string, to: string) =>
      sourceFile(`src/plan/${name}.ts`, `import { x } from './${to}.ts';\n`);
    const cycle = [file('a', 'b'), file('b', 'c'), file('c', 'b')];
    expect(checkCycles(cycle).map(({ reason }) => reason)).toEqual([
      expect.stringContaining('src/plan/b.ts -> src/plan/c.ts -> src/plan/b.ts'),
    ]);
    expect(checkCycles([file('a', 'b'), file('b', 'c')])).toEqual([]);
  });
});

test('a crowded folder is found, its subfolders counted apart', () => {
  const files = (folder: string, count: number) =>
    Array.from({ length: count }, (_, index) => sourceFile(`${folder}/${index}.ts`, LICENCE));
  expect(checkFolders(files('src/model', 15))).toEqual([
    { path: 'src/model', line: 1, reason: expect.stringMatching(/^15 files, at most 14/) },
  ]);
  expect(checkFolders([...files('src/model', 14), ...files('src/model/service', 14)])).toEqual([]);
  expect(checkFolders(files('test/integration/cluster', 15))).toHaveLength(1);
});
