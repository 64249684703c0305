// SPDX-License-Identifier: Apache-2.0
// The layers of src/, and which may import which. ARCHITECTURE.md has the picture.
import type { SourceFile, Violation } from './source-file.ts';

type Layer =
  | 'lib'
  | 'model'
  | 'plan'
  | 'render'
  | 'config'
  | 'system'
  | 'edge'
  | 'agent'
  | 'program'
  | 'tools';

interface LayerRule {
  readonly number: string;
  readonly holds: RegExp;
  readonly mayImport: readonly Layer[];
  readonly why: string;
}

/** The first pattern that fits decides. */
const LAYERS: Readonly<Record<Layer, LayerRule>> = {
  lib: {
    number: '0',
    holds: /^src\/(lib\/|errors\.ts$)/,
    mayImport: ['lib'],
    why: 'the lowest layer stands on nothing of ours',
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
      /^src\/source\/|^src\/on-node\/read\/|^src\/config\/(load|file\/watch)\.ts$|^src\/dataplane\/\w+\/(dataplane|open|growing|open-growing|grace-period|bypass-map|inspect\/pinned|affinity\/(pinned|namespaces|lists)|stale-sockets\/(?!socket|served|pass|keeping)[\w-]+|flows\/(pinned|traffic\/reader)|(?:devices|packet|packet\/cookies|scope|xdp)\/[\w-]+|loader\/(?!sizes)[\w/-]+|restore\/(?!variant|failure)[\w-]+|probe\/(?!plan)[\w-]+|maps\/(kernel|counters))\.ts$/,
    mayImport: ['lib', 'model', 'plan', 'render', 'config', 'system', 'edge'],
    why: 'the edges touch the world and serve the agent: they do not know who calls them',
  },
  render: {
    number: '3a',
    holds: /^src\/(dataplane|on-node)\//,
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
    mayImport: ['lib', 'model', 'plan', 'config'],
    why: 'settings are values that others act on: they start and open nothing',
  },
  agent: {
    number: '5',
    holds: /^src\/(agent|server|observe)\//,
    mayImport: ['lib', 'model', 'plan', 'render', 'config', 'system', 'edge', 'agent'],
    why: 'the agent is driven by the program, not the other way round',
  },
  program: {
    number: '6',
    holds: /^src\/(cli\/|main\.ts$)/,
    mayImport: ['lib', 'model', 'plan', 'render', 'config', 'system', 'edge', 'agent', 'program'],
    why: 'no part of the product needs what demonstrates or measures it',
  },
  tools: {
    number: '7',
    holds: /^tools\//,
    mayImport: [
      'lib',
      'model',
      'plan',
      'render',
      'config',
      'system',
      'edge',
      'agent',
      'program',
      'tools',
    ],
    why: 'the top layer may use everything',
  },
};

export function layerOf(path: string): Layer | undefined {
  const names = Object.keys(LAYERS) as Layer[];
  return names.find((name) => LAYERS[name].holds.test(path));
}

/** Outside src/dataplane, only these know a dataplane: everything else knows the seam. */
const DATAPLANE_COMPOSERS: readonly string[] = [
  'src/cli/dataplanes.ts',
  // Opt-outs are BPF's alone, and no other dataplane has them.
  'src/cli/commands/bypass.ts',
  // What each dataplane needs is tried one by one.
  'src/cli/probe/attempts.ts',
  // Filters of others are read as rules that iptables-save prints.
  'src/on-node/netfilter/iptables.ts',
  // What kube-proxy leaves is read and removed with the tools of the iptables dataplane, whichever one runs.
  'src/cli/leftovers/',
];

const isComposer = (path: string): boolean =>
  DATAPLANE_COMPOSERS.some(
    (composer) => path === composer || (composer.endsWith('/') && path.startsWith(composer)),
  );

/** A file of one dataplane, not of the seam. */
const isOfDataplane = (path: string): boolean => /^src\/dataplane\/\w+\//.test(path);

/** What every source implements: it names the types of their readings, and each of them may name it. */
const SOURCE_INTERFACE = 'src/source/source.ts';

/** Edges stand side by side: `source/apiserver`, `source/manifests`, `dataplane/bpf`. */
function edgeOf(path: string): string {
  return path.split('/').slice(1, 3).join('/');
}

const areApart = (path: string, other: string): boolean =>
  edgeOf(path) !== edgeOf(other) && path !== SOURCE_INTERFACE && other !== SOURCE_INTERFACE;

/** Imports against the layers, and source files that belong to none. */
export function checkLayers(files: readonly SourceFile[]): readonly Violation[] {
  return files
    .filter(({ path }) => /^(src|tools)\/.*\.ts$/.test(path))
    .flatMap((file) => {
      const layer = layerOf(file.path);
      if (layer === undefined) {
        const reason = 'belongs to no layer: name its folder in test/unit/conventions/layers.ts';
        return [{ path: file.path, line: 1, reason }];
      }
      return file.imports.flatMap(({ path, line }): readonly Violation[] => {
        const target = path === undefined ? undefined : layerOf(path);
        if (path === undefined || target === undefined) return [];
        const rule = LAYERS[layer];
        if (!rule.mayImport.includes(target)) {
          const reason = `layer ${rule.number} (${layer}) imports ${path} of layer ${LAYERS[target].number} (${target}): ${rule.why}`;
          return [{ path: file.path, line, reason }];
        }
        if (layer === 'edge' && target === 'edge' && areApart(file.path, path)) {
          const reason = `${edgeOf(file.path)} imports ${edgeOf(path)}: edges stand side by side, only the agent joins them`;
          return [{ path: file.path, line, reason }];
        }
        const isInside = file.path.startsWith('src/dataplane/');
        if (isOfDataplane(path) && !isInside && !isComposer(file.path)) {
          const reason = `imports ${path}: outside src/dataplane the seam alone is known; ${DATAPLANE_COMPOSERS[0]} composes dataplanes`;
          return [{ path: file.path, line, reason }];
        }
        return [];
      });
    });
}

/** Every cycle of imports once, from its first file by path. */
export function checkCycles(files: readonly SourceFile[]): readonly Violation[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const violations: Violation[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      const cycle = [...trail.slice(start), path].join(' -> ');
      const reason = `imports in a cycle, so no file of it can be read first: ${cycle}`;
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
