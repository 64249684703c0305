// SPDX-License-Identifier: Apache-2.0
// Which tests run where. Unit tests need nothing but Node; the other projects name their needs in
// scripts/test, and run one file at a time because they share the machine's kernel.
import { defineConfig } from 'vitest/config';

const afterBuild = ['conventions/docs', 'tools/bench/parts'].map(
  (name) => `test/unit/${name}.test.ts`,
);

interface KernelProject {
  readonly isolate?: boolean;
  readonly files?: string;
  readonly timeoutMs?: number;
}

/** What hangs fails within this, also on a machine with other work. A test that needs longer says so, and why. */
const TIMEOUT_MS = 120_000;
/** Of stages that build images or start machines. */
const BUILDING_MS = 900_000;

/**
 * Files that touch the kernel: each makes namespaces, cgroups and pins of its own, and scripts/test says how many run beside each other.
 * By default one at a time, one project after the other.
 */
function kernelProject(
  name: string,
  groupOrder: number,
  { isolate = true, files = '**/*.test.ts', timeoutMs = TIMEOUT_MS }: KernelProject = {},
) {
  return {
    extends: true as const,
    test: {
      name,
      include: [`test/integration/${name}/${files}`],
      maxWorkers: Number(process.env['FAIRLEAD_WORKERS'] ?? 1),
      isolate,
      testTimeout: timeoutMs,
      hookTimeout: timeoutMs,
      sequence: { groupOrder },
    },
  };
}

export default defineConfig({
  test: {
    testTimeout: TIMEOUT_MS,
    hookTimeout: TIMEOUT_MS,
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
          // By default one core is left alone, which is half of a small machine.
          maxWorkers: '100%',
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
      kernelProject('image', 8, { timeoutMs: BUILDING_MS }),
      kernelProject('vm', 9, { timeoutMs: BUILDING_MS }),
      kernelProject('networks', 10),
      // For kernels that the host need not have: files of the project `kernels` run them in virtual machines.
      kernelProject('guest', 11, { timeoutMs: BUILDING_MS }),
      // Its files share the virtual machines. FAIRLEAD_KERNEL leaves out those that are for another kernel alone.
      kernelProject('kernels', 12, {
        isolate: false,
        files: `{,lab/${process.env['FAIRLEAD_KERNEL'] ?? '*'}/}*.test.ts`,
        timeoutMs: BUILDING_MS,
      }),
      kernelProject('chart', 13, { timeoutMs: BUILDING_MS }),
      kernelProject('e2e', 13, { timeoutMs: BUILDING_MS }),
      // Compares the documents with what was built, so it comes last.
      { extends: true, test: { name: 'docs', include: afterBuild, sequence: { groupOrder: 14 } } },
    ],
  },
});
