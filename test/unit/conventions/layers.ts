// SPDX-License-Identifier: Apache-2.0
// The layers of src/, and which may import which. ARCHITECTURE.md has the picture.
import type { SourceFile, Violation } from './source-file.ts';

type Layer =
  | 'lib'
  | 'model'
  | 'plan'
  | 'engine'
  | 'compare'
  | 'capture'
  | 'history'
  | 'system'
  | 'config'
  | 'kernel'
  | 'agent'
  | 'service'
  | 'instance'
  | 'program'
  | 'tools';

interface LayerRule {
  readonly number: string;
  readonly holds: RegExp;
  readonly mayImport: readonly Layer[];
  readonly why: string;
}

const PURE: readonly Layer[] = ['lib', 'model', 'plan', 'engine'];
const WORLD: readonly Layer[] = [...PURE, 'config', 'system', 'kernel'];
const READ_ANYWHERE: readonly Layer[] = [...WORLD, 'compare', 'capture', 'history'];

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
    why: 'the plan is the same for every engine and knows none',
  },
  kernel: {
    number: '4',
    holds: /\/kernel\/|^src\/source\/|^src\/on-node\/read\/|^src\/config\/(load|file\/watch)\.ts$/,
    mayImport: WORLD,
    why: 'these touch the world and serve the agent: they do not know who calls them',
  },
  engine: {
    number: '3a',
    holds: /^src\/(engines|on-node)\//,
    mayImport: PURE,
    why: 'system calls are below kernel/ and sys/ only, so a test needs no kernel to see every byte',
  },
  compare: {
    number: '3a',
    holds: /^src\/(compare|verify)\//,
    mayImport: [...PURE, 'compare'],
    why: 'rules and plans are compared as values, so that files from another node can be, too',
  },
  capture: {
    number: '3a',
    holds: /^src\/capture\//,
    mayImport: [...PURE, 'capture'],
    why: 'a capture of another node is read, and its names replaced, without this one',
  },
  history: {
    number: '3a',
    holds: /^src\/history\//,
    mayImport: ['lib', 'model', 'plan', 'history'],
    why: 'what is on disk is read as values, whoever has written it',
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
    number: '5a',
    holds: /^src\/agent\//,
    mayImport: [...WORLD, 'agent'],
    why: 'others compose, serve and observe the loop, and it knows none of them',
  },
  service: {
    number: '5b',
    holds: /^src\/(server|observe|probe)\//,
    mayImport: [...WORLD, 'agent', 'service'],
    why: 'what answers questions does not know how an agent is composed',
  },
  instance: {
    number: '5c',
    holds: /^src\/instance\//,
    mayImport: [...READ_ANYWHERE, 'agent', 'service', 'instance'],
    why: 'the command line drives what runs in an agent, not the other way round',
  },
  program: {
    number: '6',
    holds: /^src\/(cli\/|(begin|main)\.ts$)/,
    mayImport: [...READ_ANYWHERE, 'agent', 'service', 'instance', 'program'],
    why: 'no part of the product needs what demonstrates or measures it',
  },
  tools: {
    number: '7',
    holds: /^tools\//,
    mayImport: [...WORLD, 'capture', 'agent', 'service', 'instance', 'program', 'tools'],
    why: 'the top layer may use everything',
  },
};

export function layerOf(path: string): Layer | undefined {
  const names = Object.keys(LAYERS) as Layer[];
  return names.find((name) => LAYERS[name].holds.test(path));
}

/** Outside src/engines, only these know a single engine: all else knows the interface. */
const ENGINE_COMPOSERS: readonly string[] = [
  'src/instance/dataplanes.ts',
  // Opt-outs are BPF's alone, and no other engine has them.
  'src/cli/commands/bypass.ts',
  // Rules are read by the parsers that read fairlead's own.
  'src/compare/rules/',
  // What each engine needs is tried one by one.
  'src/probe/run/attempts.ts',
  // Filters of others are read as rules that iptables-save prints.
  'src/on-node/netfilter/iptables.ts',
  // What kube-proxy leaves is read and removed with the tools of the iptables engine, whichever one runs.
  'src/instance/leftovers/',
  'src/cli/cleanup/',
];

const isComposer = (path: string): boolean =>
  ENGINE_COMPOSERS.some(
    (composer) => path === composer || (composer.endsWith('/') && path.startsWith(composer)),
  );

/** A file of one engine, not of the interface. */
const isOfEngine = (path: string): boolean => /^src\/engines\/(?!router\/)\w+\//.test(path);

/** What every source implements: it names the types of their readings, and each of them may name it. */
const SOURCE_INTERFACE = 'src/source/source.ts';

/** They stand side by side: `source/apiserver`, `source/manifests`, `engines/bpf`. */
function sideOf(path: string): string {
  return path.split('/').slice(1, 3).join('/');
}

const areApart = (path: string, other: string): boolean =>
  sideOf(path) !== sideOf(other) && path !== SOURCE_INTERFACE && other !== SOURCE_INTERFACE;

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
      return file.imports.flatMap(({ path, line, isType }): readonly Violation[] => {
        const target = path === undefined ? undefined : layerOf(path);
        if (path === undefined || target === undefined) return [];
        const rule = LAYERS[layer];
        // To name the type of what it is given, a pure file need not call it.
        const isName = isType && layer === 'engine' && target === 'system';
        if (!rule.mayImport.includes(target) && !isName) {
          const reason = `layer ${rule.number} (${layer}) imports ${path} of layer ${LAYERS[target].number} (${target}): ${rule.why}`;
          return [{ path: file.path, line, reason }];
        }
        if (layer === 'kernel' && target === 'kernel' && areApart(file.path, path)) {
          const reason = `${sideOf(file.path)} imports ${sideOf(path)}: they stand side by side, only the instance joins them`;
          return [{ path: file.path, line, reason }];
        }
        const isInside = file.path.startsWith('src/engines/');
        if (isOfEngine(path) && !isInside && !isComposer(file.path)) {
          const reason = `imports ${path}: outside src/engines the interface alone is known; ${ENGINE_COMPOSERS[0]} composes engines`;
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
