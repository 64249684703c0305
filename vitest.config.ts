// SPDX-License-Identifier: Apache-2.0
// Which tests run where. Unit tests need nothing but Node; the other projects name their needs in
// scripts/test, and run one file at a time because they share the machine's kernel.
import { defineConfig } from 'vitest/config';

const afterBuild = ['conventions/docs', 'tools/bench/parts'].map(
  (name) => `test/unit/${name}.test.ts`,
);

/** Files that touch the kernel: one at a time, one project after the other. */
function kernelProject(name: string, groupOrder: number, isolate = true, files = '**/*.test.ts') {
  return {
    extends: true as const,
    test: {
      name,
      include: [`test/integration/${name}/${files}`],
      maxWorkers: 1,
      isolate,
      sequence: { groupOrder },
    },
  };
}

export default defineConfig({
  test: {
    // For a machine with other work: they cost time only where a test hangs.
    testTimeout: 900_000,
    hookTimeout: 900_000,
    pool: 'forks',
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts', 'test/conformance/**/*.test.ts'],
          exclude: afterBuild,
          // Unit tests share nothing that one could spoil: fresh modules for each file cost half the time.
          isolate: false,
          sequence: { groupOrder: 1 },
        },
      },
      kernelProject('native', 2),
      kernelProject('bpf', 3),
      kernelProject('netns', 4),
      kernelProject('cluster', 5),
      kernelProject('packets', 6),
      kernelProject('nodes', 6),
      kernelProject('oracle', 7),
      kernelProject('image', 8),
      kernelProject('vm', 9),
      kernelProject('networks', 10),
      // For kernels that the host need not have: files of the project `kernels` run them in virtual machines.
      kernelProject('guest', 11),
      // Its files share the virtual machines. FAIRLEAD_KERNEL leaves out those that are for another kernel alone.
      kernelProject(
        'kernels',
        12,
        false,
        `{,lab/${process.env['FAIRLEAD_KERNEL'] ?? '*'}/}*.test.ts`,
      ),
      kernelProject('chart', 13),
      kernelProject('e2e', 13),
      // Compares the documents with what was built, so it comes last.
      { extends: true, test: { name: 'docs', include: afterBuild, sequence: { groupOrder: 14 } } },
    ],
  },
});
