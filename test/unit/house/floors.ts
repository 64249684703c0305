// SPDX-License-Identifier: Apache-2.0
// The floors of the house, and who may stand on whom. ARCHITECTURE.md has the picture.
import type { SourceFile, Violation } from './source-file.ts';

type Floor =
  | 'lib'
  | 'model'
  | 'plan'
  | 'render'
  | 'config'
  | 'system'
  | 'edge'
  | 'runtime'
  | 'program';

interface FloorRule {
  readonly number: string;
  readonly holds: RegExp;
  readonly mayImport: readonly Floor[];
  readonly why: string;
}

/** The first pattern that fits decides. */
const FLOORS: Readonly<Record<Floor, FloorRule>> = {
  lib: {
    number: '0',
    holds: /^src\/(lib\/|errors\.ts$)/,
    mayImport: ['lib'],
    why: 'the ground floor stands on nothing of ours',
  },
  model: {
    number: '1',
    holds: /^src\/model\//,
    mayImport: ['lib', 'model'],
    why: 'what an object means must not depend on where it comes from or goes to',
  },
  plan: {
    number: '2',
    holds: /^src\/plan\//,
    mayImport: ['lib', 'model', 'plan'],
    why: 'the plan is the same for every dataplane and knows none',
  },
  edge: {
    number: '4',
    holds:
      /^src\/(source|kube)\/|^src\/config\/(load|watch)\.ts$|^src\/dataplane\/\w+\/(kernel|attach|counters|pins)[\w-]*\.ts$/,
    mayImport: ['lib', 'model', 'plan', 'render', 'config', 'system', 'edge'],
    why: 'the edges touch the world and serve the runtime: they do not know who calls them',
  },
  render: {
    number: '3a',
    holds: /^src\/dataplane\//,
    mayImport: ['lib', 'model', 'plan', 'render'],
    why: 'rendering is pure: a test needs no kernel to see every byte',
  },
  system: {
    number: '3b',
    holds: /^src\/(sys\/|log\.ts$)/,
    mayImport: ['lib', 'system'],
    why: 'system calls and the log mean nothing by themselves: no model, no plan',
  },
  config: {
    number: '3b',
    holds: /^src\/config\//,
    mayImport: ['lib', 'plan', 'config'],
    why: 'settings are values that others act on: they start and open nothing',
  },
  runtime: {
    number: '5',
    holds: /^src\/runtime\//,
    mayImport: ['lib', 'model', 'plan', 'render', 'config', 'system', 'edge', 'runtime'],
    why: 'the runtime is driven by the program, not the other way round',
  },
  program: {
    number: '6',
    holds: /^src\/(demo\/|cli\/|main\.ts$)/,
    mayImport: ['lib', 'model', 'plan', 'render', 'config', 'system', 'edge', 'runtime', 'program'],
    why: 'the top floor may use everything',
  },
};

export function floorOf(path: string): Floor | undefined {
  const names = Object.keys(FLOORS) as Floor[];
  return names.find((name) => FLOORS[name].holds.test(path));
}

/** Edges stand side by side: `source`, `kube`, `dataplane/bpf`. */
function edgeOf(path: string): string {
  return path.split('/').slice(1, -1).join('/');
}

/** Imports against the floors, and source files that belong to none. */
export function checkFloors(files: readonly SourceFile[]): readonly Violation[] {
  return files
    .filter(({ path }) => path.startsWith('src/') && path.endsWith('.ts'))
    .flatMap((file) => {
      const floor = floorOf(file.path);
      if (floor === undefined) {
        const reason = 'belongs to no floor: name its folder in test/unit/house/floors.ts';
        return [{ path: file.path, line: 1, reason }];
      }
      return file.imports.flatMap(({ path, line }): readonly Violation[] => {
        const target = path === undefined ? undefined : floorOf(path);
        if (path === undefined || target === undefined) return [];
        const rule = FLOORS[floor];
        if (!rule.mayImport.includes(target)) {
          const reason = `floor ${rule.number} (${floor}) imports ${path} of floor ${FLOORS[target].number} (${target}): ${rule.why}`;
          return [{ path: file.path, line, reason }];
        }
        if (floor === 'edge' && target === 'edge' && edgeOf(file.path) !== edgeOf(path)) {
          const reason = `${edgeOf(file.path)} imports ${edgeOf(path)}: edges stand side by side, only the runtime joins them`;
          return [{ path: file.path, line, reason }];
        }
        return [];
      });
    });
}

/** Every circle of imports once, from its first file by path. */
export function checkCycles(files: readonly SourceFile[]): readonly Violation[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const violations: Violation[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      const circle = [...trail.slice(start), path].join(' -> ');
      const reason = `imports in a circle, so no file of it can be read first: ${circle}`;
      violations.push({ path, line: 1, reason });
      return;
    }
    if (done.has(path)) return;
    for (const found of byPath.get(path)?.imports ?? []) {
      if (found.path !== undefined) visit(found.path, [...trail, path]);
    }
    done.add(path);
  };
  for (const { path } of [...files].sort((a, b) => (a.path < b.path ? -1 : 1))) visit(path, []);
  return violations;
}
