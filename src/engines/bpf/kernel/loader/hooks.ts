// SPDX-License-Identifier: Apache-2.0
// Attaches one program, or replaces the program of a pinned link: every connection meets the old one or the
// new one.
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { FairleadError } from '../../../../errors.ts';
import type { BpfLink, BpfProgram } from '../../../../sys/native.ts';
import * as native from '../../../../sys/native.ts';
import { codeOf } from '../../errors.ts';
import type { Hook, Target } from '../../layer.ts';
import { linkPin, type PinFolder, unpin } from './pins.ts';
import type { Undo } from './undo.ts';

export interface AttachedHook {
  /** Of the link's pin: `fl_connect4`, of a device `program@device`. */
  readonly name: string;
  readonly link: BpfLink;
  readonly isAdopted: boolean;
}

/** Adds what it made to `undo`. Throws OTHER_CGROUP. */
export function attachHook(
  { program: programName, target }: Hook,
  program: BpfProgram,
  folder: PinFolder,
  undo: Undo,
): AttachedHook {
  const name = linkPin(programName, target.kind === 'device' ? target.device : undefined);
  const path = join(folder.links, name);
  const previous = takeOver(path, program, target);
  if (previous !== undefined) return { name, link: previous, isAdopted: true };
  const link = attachTo(program, target);
  undo.push(() => {
    link.detach();
    link.close();
  });
  // A clsact filter has no link to pin; it stays, and attaching again replaces it.
  if (link.kind !== 'clsact') {
    link.pin(path);
    undo.push(() => unpin(path));
  }
  return { name, link, isAdopted: false };
}

/** Before anything is loaded. Throws OTHER_CGROUP. */
export function checkPinnedLinks(hooks: readonly Hook[], folder: PinFolder): void {
  for (const { program, target } of hooks) {
    const path = join(folder.links, linkPin(program, undefined));
    if (target.kind !== 'cgroup' || !existsSync(path)) continue;
    const link = native.openPinnedLink(path);
    try {
      isGone(link, target.path, path);
    } finally {
      link.close();
    }
  }
}

function attachTo(program: BpfProgram, target: Target): BpfLink {
  if (target.kind === 'cgroup') return program.attachCgroup(target.path);
  return program.attachTc(target.ifindex, target.at);
}

/** A link whose cgroup or device is gone has no effect: its pin is removed, and a new link is made. */
function takeOver(path: string, program: BpfProgram, target: Target): BpfLink | undefined {
  if (!existsSync(path)) return undefined;
  const link = native.openPinnedLink(path);
  try {
    if (target.kind === 'cgroup' && isGone(link, target.path, path)) return drop(link, path);
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

/** True if the link's cgroup is gone. Throws OTHER_CGROUP if the link serves another cgroup. */
function isGone(link: BpfLink, cgroupRoot: string, path: string): boolean {
  const wanted = statSync(cgroupRoot, { bigint: true }).ino;
  if (link.cgroupId === 0n) return true;
  if (link.cgroupId === wanted) return false;
  throw new FairleadError(
    'OTHER_CGROUP',
    `${path} serves the cgroup with id ${link.cgroupId}, --cgroup-root ${cgroupRoot} has id ${wanted}: name the cgroup it was started with, or run \`fairlead cleanup\` first`,
  );
}
