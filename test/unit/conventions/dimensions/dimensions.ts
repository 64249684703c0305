// SPDX-License-Identifier: Apache-2.0
// What can be deleted: a folder or two, and what registers them. Nothing else of the product names such a dimension in its code, so
// that whoever does not use it need not read it.
import { type SourceFile, sourceFile, type Violation } from '../source-file.ts';

/** A whole line; a row of a table by its key, `key: {` to its end; or an entry of the list in the line that has `of`. */
type Registration =
  | string
  | { readonly row: string }
  | { readonly of: string; readonly entry: string };

export interface Dimension {
  /** Of identifiers that name it. */
  readonly word: RegExp;
  /** Of `src`, and of `bpf`: they go. */
  readonly folders: readonly string[];
  /** By file: what goes with the folders. */
  readonly registrations: Readonly<Record<string, readonly Registration[]>>;
  /**
   * Files that name or import it all the same, so that it cannot be deleted yet: traffic rules, connections and Nodes have fields of
   * it. May only get shorter.
   */
  readonly seams?: readonly string[];
  /** Tables of texts that users read and set: flags, metrics, Events. They name it and import nothing of it. */
  readonly tables: readonly string[];
}

const SETTINGS: readonly string[] = [
  'src/config/types.ts',
  'src/config/file/fairlead-schema.ts',
  'src/config/settings/',
];

export const DIMENSIONS: Readonly<Record<string, Dimension>> = {
  XDP: {
    word: /xdp/i,
    folders: ['src/engines/bpf/xdp/', 'bpf/packet/xdp/'],
    registrations: {
      'src/engines/bpf/kernel/devices/early-paths.ts': [
        "import { XDP } from '../../xdp/kernel/open.ts';",
        { of: 'const EARLY_PATHS', entry: 'XDP' },
      ],
      'src/engines/snapshot.ts': ['readonly xdp?: EarlyView;', "xdp: 'XDP',"],
      'src/cli/device-settings.ts': ['xdp: own.xdp,'],
      'src/probe/features.ts': [{ row: 'XDP' }],
      'src/probe/run/attempts.ts': [
        "import { forwardByXdp } from '../../engines/bpf/xdp/kernel/probe.ts';",
        'XDP: forwardByXdp,',
      ],
    },
    tables: [...SETTINGS, 'src/server/events/event.ts', 'src/server/metrics/metric-rows.ts'],
  },
  Maglev: {
    word: /maglev/i,
    folders: ['src/plan/maglev/'],
    registrations: {
      'src/plan/decide/balancing.ts': [
        "import { MAGLEV } from '../maglev/maglev.ts';",
        { row: 'maglev' },
      ],
      'src/engines/bpf/layout/layout.ts': ['maglev: 5,'],
      'src/model/annotations.ts': ["'maglev',"],
      'src/model/types.ts': ["| 'maglev'"],
    },
    tables: [],
  },
  'direct return': {
    word: /direct_?return|directPort|geneve|ipip/i,
    folders: [
      'src/model/direct-return/',
      'src/plan/direct-return/',
      'src/engines/bpf/direct-return/',
      'src/instance/direct-return/',
      'src/cli/view/direct-return/',
      'bpf/packet/geneve/',
      'bpf/packet/ipip/',
    ],
    registrations: {
      'src/model/node/own-annotations.ts': [
        "import { DIRECT_RETURN_ANNOTATION } from '../direct-return/annotation.ts';",
        { of: 'const OWN_ANNOTATIONS', entry: 'DIRECT_RETURN_ANNOTATION' },
      ],
      'src/engines/bpf/rows/satellites/satellites.ts': [
        "import { LOCAL_BACKENDS } from '../../direct-return/local-backends.ts';",
        'LOCAL_BACKENDS,',
      ],
      'src/cli/view/status-text.ts': [
        "import { directReturnLines } from './direct-return/lines.ts';",
        '...directReturnLines(report),',
      ],
      'src/probe/features.ts': [{ row: 'direct return' }],
      'src/probe/run/attempts.ts': [
        "import { tryDirectReturn } from '../../engines/bpf/direct-return/kernel/direct-trial.ts';",
        "'direct return': tryDirectReturn,",
      ],
    },
    seams: [
      'bpf/packet/flow/egress.h',
      'bpf/packet/flow/first.h',
      'bpf/packet/icmp/errors.h',
      'bpf/packet/maps.h',
      'bpf/packet/packet.bpf.c',
      'bpf/packet/uplink/way_back.h',
      'bpf/probe/direct.bpf.c',
      'src/cli/commands/run.ts',
      'src/engines/bpf/features.ts',
      'src/engines/bpf/kernel/dataplane.ts',
      'src/engines/bpf/kernel/growing.ts',
      'src/engines/bpf/kernel/open.ts',
      'src/engines/bpf/kernel/packet/layer.ts',
      'src/engines/bpf/layout/layout.ts',
      'src/engines/bpf/layout/packet-layout.ts',
      'src/engines/bpf/rows/service-port/backends.ts',
      'src/engines/bpf/rows/service-port/base.ts',
      'src/engines/bpf/rows/service-port/render.ts',
      'src/engines/bpf/rows/service-port/update.ts',
      'src/engines/capabilities.ts',
      'src/engines/dataplane.ts',
      'src/engines/limitations.ts',
      'src/engines/router/merge.ts',
      'src/engines/router/moving.ts',
      'src/engines/router/router.ts',
      'src/instance/compose.ts',
      'src/model/node/node.ts',
      'src/model/types.ts',
      'src/observe/answer.ts',
      'src/observe/service-rows.ts',
      'src/observe/status.ts',
      'src/plan/decide/node-context.ts',
      'src/plan/decide/service-plan.ts',
      'src/plan/decide/traffic-rules.ts',
      'src/plan/explain/steps.ts',
      'src/plan/planner.ts',
      'src/plan/types.ts',
      'src/server/metrics/readings.ts',
    ],
    tables: [...SETTINGS, 'src/server/metrics/metric-rows.ts'],
  },
};

/** What the kernel and other programs call so, whatever of it this agent uses. */
const FACTS = /^src\/(sys|on-node)\//;

const isIn = (path: string, folders: readonly string[]): boolean =>
  folders.some((folder) => path.startsWith(folder));

/** The tree without the dimension; registrations that are not there, or twice, are said. */
export function without(
  tree: readonly SourceFile[],
  { folders, registrations }: Dimension,
): { readonly files: readonly SourceFile[]; readonly missing: readonly string[] } {
  const missing: string[] = [];
  const files = tree.flatMap((file) => {
    if (isIn(file.path, folders)) return [];
    const cuts = registrations[file.path] ?? [];
    if (cuts.length === 0) return [file];
    let rest: SourceFile = file;
    for (const cut of cuts) {
      const next = cutFrom(rest, cut);
      if (next === undefined) missing.push(`${file.path}: ${JSON.stringify(cut)}`);
      rest = next ?? rest;
    }
    return [rest];
  });
  for (const path of Object.keys(registrations))
    if (!files.some((file) => file.path === path)) missing.push(path);
  return { files, missing };
}

function cutFrom(file: SourceFile, cut: Registration): SourceFile | undefined {
  if (typeof cut === 'object' && 'of' in cut) return withoutEntry(file, cut);
  const gone = new Set(typeof cut === 'string' ? lineOf(file, cut) : rowOf(file, cut.row));
  if (gone.size === 0) return undefined;
  return sourceFile(file.path, file.lines.filter((_, index) => !gone.has(index)).join('\n'));
}

function withoutEntry(
  { path, lines }: SourceFile,
  { of, entry }: { readonly of: string; readonly entry: string },
): SourceFile | undefined {
  const at = lines.findIndex((line) => line.includes(of));
  const [, before, list, after] = /^(.*\[)([^[\]]*)(\].*)$/.exec(lines[at] ?? '') ?? [];
  const entries = list?.split(', ') ?? [];
  if (!entries.includes(entry)) return undefined;
  const rest = entries.filter((one) => one !== entry).join(', ');
  return sourceFile(path, lines.with(at, `${before}${rest}${after}`).join('\n'));
}

function lineOf({ lines }: SourceFile, text: string): readonly number[] {
  const found = lines.flatMap((line, index) => (line.trim() === text ? [index] : []));
  return found.length === 1 ? found : [];
}

function rowOf({ lines }: SourceFile, key: string): readonly number[] {
  const names = [`${key}: {`, `'${key}': {`];
  const first = lines.findIndex((line) => names.includes(line.trim()));
  const indent = lines[first]?.match(/^ */)?.[0] ?? '';
  const last = lines.findIndex((line, index) => index > first && line === `${indent}},`);
  if (first < 0 || last < 0) return [];
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

/** What is left of it in the rest of the product. */
export function checkDimension(
  tree: readonly SourceFile[],
  dimension: Dimension,
): readonly Violation[] {
  const { word, folders, tables, seams = [] } = dimension;
  return without(tree, dimension).files.flatMap((file) => {
    if (seams.includes(file.path)) return [];
    const imports = file.imports.filter(({ path }) => path !== undefined && isIn(path, folders));
    const includes = file.lines.flatMap((line, index) =>
      folders.some((folder) => line.startsWith(`#include "${folder.replace(/^bpf\//, '')}`))
        ? [{ line: index + 1 }]
        : [],
    );
    const found = [...imports, ...includes].map(({ line }) => ({ line, why: 'imports it' }));
    const isNamed =
      file.path.startsWith('src/') && !isIn(file.path, tables) && !FACTS.test(file.path);
    const names = file.code.flatMap((text, index) =>
      isNamed && word.test(text) ? [{ line: index + 1, why: 'names it' }] : [],
    );
    return [...found, ...names].map(({ line, why }) => ({
      ...{ path: file.path, line },
      reason: `${why}: only ${folders.join(', ')} and the registrations do`,
    }));
  });
}
