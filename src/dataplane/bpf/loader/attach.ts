// SPDX-License-Identifier: Apache-2.0
// Brings the socket layer into the kernel, or takes over what a previous agent left: maps are
// re-used from their pins, links get the new programs in place, so no connection sees a gap.
// If any step fails, everything this call made is taken back: nothing stays half attached.
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { FairleadError, reasonOf } from '../../../errors.ts';
import type { BpfLink, BpfMap, BpfObject, BpfProgram } from '../../../sys/native.ts';
import * as native from '../../../sys/native.ts';
import { type PinFolder, preparePins, unpin } from './pins.ts';

export interface AttachOptions {
  /** The compiled socket layer. */
  readonly object: Uint8Array;
  readonly bpfRoot: string;
  /** cgroup v2 directory whose sockets are translated. */
  readonly cgroupRoot: string;
  /** max_entries by map name; others keep what the object declares. */
  readonly sizes: Readonly<Record<string, number>>;
}

export interface Attached {
  readonly map: (name: string) => BpfMap;
  readonly hooks: readonly { readonly name: string; readonly isTakenOver: boolean }[];
  /** False: refused connections show EPERM, because this kernel has no bpf_set_retval for socket hooks (before 6.1). */
  readonly canSetRetval: boolean;
  readonly insns: Readonly<Record<string, number>>;
  close(): void;
}

/**
 * Sections in the order of attaching: replies can be mapped back before anything is translated. What
 * each is attached as, libbpf knows from the section.
 */
const HOOKS: readonly string[] = [
  'cgroup/recvmsg4',
  'cgroup/recvmsg6',
  'cgroup/getpeername4',
  'cgroup/getpeername6',
  'cgroup/sock_release',
  'cgroup/sendmsg4',
  'cgroup/sendmsg6',
  'cgroup/connect4',
  'cgroup/connect6',
];

interface Loaded {
  readonly object: BpfObject;
  readonly canSetRetval: boolean;
}

/** Blocks for as long as the kernel verifies: 80 to 170 ms. For what has no event loop to keep going. */
export function attach(options: AttachOptions): Attached {
  try {
    const folder = preparePins(options.bpfRoot);
    return attachLoaded(load(options, folder), options, folder);
  } catch (error) {
    throw asFairleadError(error, options);
  }
}

/** The same with the verifier on another thread: the event loop waits for a few milliseconds in all. */
export async function attachAsync(options: AttachOptions): Promise<Attached> {
  try {
    const folder = preparePins(options.bpfRoot);
    return attachLoaded(await loadAsync(options, folder), options, folder);
  } catch (error) {
    throw asFairleadError(error, options);
  }
}

function attachLoaded(loaded: Loaded, options: AttachOptions, folder: PinFolder): Attached {
  const { object, canSetRetval } = loaded;
  const undo: (() => void)[] = [() => object.close()];
  try {
    const maps = new Map(object.maps.map((name) => [name, object.map(name)]));
    undo.push(() => closeAll(maps.values()));
    pinNew(maps, folder, undo);
    const programs = object.programs.map(({ name, section }) => ({
      section,
      program: object.program(name),
    }));
    const attached = HOOKS.map((section) => {
      const program = programs.find((candidate) => candidate.section === section)?.program;
      if (program === undefined) throw new TypeError(`the object has no program for ${section}`);
      return attachHook(program, options.cgroupRoot, folder, undo);
    });
    const insns = Object.fromEntries(
      programs.map(({ program }) => [program.name, program.info.verifiedInsns]),
    );
    closeAll(programs.map(({ program }) => program));
    object.close();
    return {
      map: (name) => mapNamed(maps, name),
      hooks: attached.map(({ name, isTakenOver }) => ({ name, isTakenOver })),
      canSetRetval,
      insns,
      close: () => {
        closeAll(attached.map(({ link }) => link));
        closeAll(maps.values());
      },
    };
  } catch (error) {
    for (const step of undo.reverse()) step();
    throw error;
  }
}

const closeAll = (handles: Iterable<{ close(): void }>): void => {
  for (const handle of handles) handle.close();
};

export function mapNamed(maps: ReadonlyMap<string, BpfMap>, name: string): BpfMap {
  const map = maps.get(name);
  if (map === undefined) throw new TypeError(`no map ${name}`);
  return map;
}

/** Tries with bpf_set_retval first; a kernel without it refuses the program, then without. */
function load(options: AttachOptions, folder: PinFolder): Loaded {
  const loadWith = (canSetRetval: boolean): Loaded => {
    const object = open(options, folder, canSetRetval);
    try {
      object.load();
      return { object, canSetRetval };
    } catch (error) {
      object.close();
      throw error;
    }
  };
  try {
    return loadWith(true);
  } catch (error) {
    if (!mayBeTheHelper(error)) throw error;
    try {
      return loadWith(false);
    } catch {
      // Not the helper then: the first refusal says more.
      throw error;
    }
  }
}

async function loadAsync(options: AttachOptions, folder: PinFolder): Promise<Loaded> {
  const loadWith = async (canSetRetval: boolean): Promise<Loaded> => {
    const object = open(options, folder, canSetRetval);
    try {
      await object.loadAsync();
      return { object, canSetRetval };
    } catch (error) {
      object.close();
      throw error;
    }
  };
  try {
    return await loadWith(true);
  } catch (error) {
    if (!mayBeTheHelper(error)) throw error;
    return loadWith(false).catch(() => {
      throw error;
    });
  }
}

const mayBeTheHelper = (error: unknown): boolean =>
  codeOf(error) === 'VERIFIER' || codeOf(error) === 'EINVAL';

/** Opened and configured, with every map that is pinned already in place of a new one. */
function open(options: AttachOptions, folder: PinFolder, canSetRetval: boolean): BpfObject {
  const object = native.openObject(options.object, { name: 'fairlead' });
  try {
    const cookie = new BigUint64Array([native.netnsCookie() ?? 0n]);
    object.setRodata('node_netns_cookie', new Uint8Array(cookie.buffer));
    object.setRodata('can_set_retval', Uint8Array.of(Number(canSetRetval)));
    for (const [name, size] of Object.entries(options.sizes)) object.setMaxEntries(name, size);
    for (const name of object.maps) {
      if (isPinned(name)) object.reusePin(name, join(folder.maps, name));
    }
    return object;
  } catch (error) {
    object.close();
    throw error;
  }
}

/** Settings of the programs themselves (.rodata and the like) belong to one load, not to the instance. */
const isPinned = (name: string): boolean => name.startsWith('fl_');

function pinNew(maps: ReadonlyMap<string, BpfMap>, folder: PinFolder, undo: (() => void)[]): void {
  for (const [name, map] of maps) {
    const path = join(folder.maps, name);
    if (!isPinned(name) || existsSync(path)) continue;
    map.pin(path);
    undo.push(() => unpin(path));
  }
}

interface AttachedHook {
  readonly name: string;
  readonly link: BpfLink;
  readonly isTakenOver: boolean;
}

function attachHook(
  program: BpfProgram,
  cgroupRoot: string,
  folder: PinFolder,
  undo: (() => void)[],
): AttachedHook {
  const path = join(folder.links, program.name);
  const previous = takeOver(path, program, cgroupRoot);
  if (previous !== undefined) return { name: program.name, link: previous, isTakenOver: true };
  const link = program.attachCgroup(cgroupRoot);
  undo.push(() => {
    link.detach();
    link.close();
  });
  link.pin(path);
  undo.push(() => unpin(path));
  return { name: program.name, link, isTakenOver: false };
}

/** A link whose cgroup is gone serves nobody: its pin is dropped and a new one made. */
function takeOver(path: string, program: BpfProgram, cgroupRoot: string): BpfLink | undefined {
  if (!existsSync(path)) return undefined;
  const link = native.openPinnedLink(path);
  try {
    if (isElsewhere(link, cgroupRoot, path)) return drop(link, path);
    link.update(program);
    return link;
  } catch (error) {
    if (codeOf(error) === 'ENOLINK') return drop(link, path);
    link.close();
    throw error;
  }
}

function drop(link: BpfLink, path: string): undefined {
  link.close();
  unpin(path);
}

/** Throws OTHER_CGROUP if the link serves another cgroup; true if its cgroup is gone. */
function isElsewhere(link: BpfLink, cgroupRoot: string, path: string): boolean {
  const wanted = statSync(cgroupRoot, { bigint: true }).ino;
  if (link.cgroupId === 0n) return true;
  if (link.cgroupId === wanted) return false;
  throw new FairleadError(
    'OTHER_CGROUP',
    `${path} serves the cgroup with id ${link.cgroupId}, --cgroup-root ${cgroupRoot} has id ${wanted}: name the cgroup it was started with, or run \`fairlead cleanup\` first`,
  );
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : '';

function asFairleadError(error: unknown, options: AttachOptions): unknown {
  if (error instanceof FairleadError) return error;
  const reason = reasonOf(error);
  switch (codeOf(error)) {
    case 'EPERM':
    case 'EACCES':
      return new FairleadError(
        'NO_PRIVILEGE',
        `the kernel refused (${reason}): run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON`,
      );
    case 'INCOMPATIBLE':
      return new FairleadError(
        'OTHER_SIZES',
        `the maps pinned below ${options.bpfRoot} do not fit (${reason}): start with the same sizes and the same version of fairlead, or run \`fairlead cleanup --bpf-root ${options.bpfRoot}\` first`,
      );
    case 'VERIFIER': {
      const log = error instanceof Error && 'log' in error ? String(error.log) : undefined;
      return new FairleadError('PROGRAM_REFUSED', `the kernel refused a program: ${reason}`, log);
    }
    default:
      return new FairleadError(
        'ATTACH_FAILED',
        `the socket layer could not be attached: ${reason}`,
      );
  }
}
