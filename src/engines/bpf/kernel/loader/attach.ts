// SPDX-License-Identifier: Apache-2.0
// Attaches a layer, or adopts the one of a previous agent: pinned maps are reused, and the programs of pinned
// links are replaced in place. If any step fails, everything this call made is undone.
import type { BpfMap, BpfProgram } from '../../../../sys/native.ts';
import { asFairleadError } from '../../errors.ts';
import type { Layer, Rodata } from '../../layer.ts';
import type { MapVersions } from '../../layout/versions.ts';
import { attachHook, checkPinnedLinks } from './hooks.ts';
import { type Loaded, loadLayer } from './load.ts';
import { type PinFolder, preparePins } from './pins.ts';
import { closeAll, takeBack, type Undo } from './undo.ts';

export interface AttachOptions {
  readonly layer: Layer;
  readonly bpfRoot: string;
  /** max_entries by map name; others keep what the object declares. */
  readonly sizes: Readonly<Record<string, number>>;
  /** Of this build; tests have others. */
  readonly versions?: MapVersions | undefined;
  /** Of a layer that is loaded: also those that are not pinned are shared with it. */
  readonly maps?: ReadonlyMap<string, BpfMap> | undefined;
  /** When everything is loaded, right before the first link is replaced. */
  readonly beforeLinks?: () => Promise<void>;
}

export interface Attached {
  readonly map: (name: string) => BpfMap;
  readonly maps: ReadonlyMap<string, BpfMap>;
  /** Those of `layer.keeps`. */
  readonly programs: ReadonlyMap<string, BpfProgram>;
  /** `insns`: instructions that the verifier walked. */
  readonly hooks: readonly {
    readonly name: string;
    readonly isAdopted: boolean;
    readonly insns: number;
  }[];
  /** For each object, the settings that the kernel accepted. */
  readonly rodata: readonly Rodata[];
  /** What is pinned stays. */
  close(): void;
  /** As if it had failed: what it made is removed. */
  undo(): void;
}

/** What can refuse a start at once: before anything is loaded. Throws FairleadError. */
export function checkLayer(options: Pick<AttachOptions, 'layer' | 'bpfRoot' | 'versions'>) {
  const { layer, bpfRoot, versions } = options;
  try {
    const folder = preparePins(bpfRoot, versions);
    checkPinnedLinks(layer.hooks, folder);
    return folder;
  } catch (error) {
    throw asFairleadError(error, options);
  }
}

export async function attachLayer(options: AttachOptions): Promise<Attached> {
  const { layer, sizes, versions, maps } = options;
  const folder = checkLayer(options);
  const undo: Undo = [];
  try {
    const loaded = await loadLayer(layer, { folder, sizes, versions, maps }, undo);
    await options.beforeLinks?.();
    return attachHooks(layer, loaded, folder, undo);
  } catch (error) {
    takeBack(undo);
    throw asFairleadError(error, options);
  }
}

function attachHooks(
  { hooks, keeps = [] }: Layer,
  { maps, programs, rodata }: Loaded,
  folder: PinFolder,
  undo: Undo,
): Attached {
  const attached = hooks.map((hook) => {
    const program = programs.get(hook.program);
    if (program === undefined) throw new TypeError(`no object has a program ${hook.program}`);
    const { verifiedInsns: insns } = program.info;
    return { ...attachHook(hook, program, folder, undo), insns };
  });
  const kept = new Map([...programs].filter(([name]) => keeps.includes(name)));
  closeAll([...programs].flatMap(([name, program]) => (kept.has(name) ? [] : [program])));
  return {
    map: (name) => mapNamed(maps, name),
    maps,
    programs: kept,
    hooks: attached.map(({ name, isAdopted, insns }) => ({ name, isAdopted, insns })),
    rodata,
    close: () => {
      closeAll(attached.map(({ link }) => link));
      closeAll(kept.values());
      closeAll(maps.values());
    },
    undo: () => takeBack(undo),
  };
}

export function mapNamed(maps: ReadonlyMap<string, BpfMap>, name: string): BpfMap {
  const map = maps.get(name);
  if (map === undefined) throw new TypeError(`no map ${name}`);
  return map;
}
