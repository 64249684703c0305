// SPDX-License-Identifier: Apache-2.0
// Removes an instance: its links, maps and pins of any layout version, and the files in its run directory.
// Synchronous, so that it can run in the exit handler of an agent.
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { socketPath } from '../server/admin-socket.ts';
import { listProgrammed, removeProgrammed } from './dataplanes.ts';

/** Written by src/source/apiserver/transport/remembered.ts. */
const REMEMBERED = 'api-servers.json';

export interface InstancePaths {
  readonly bpfRoot: string;
  readonly runDir: string;
}

/** The parts of an instance: pins by their path below bpfRoot, files by their full path. */
export interface InstanceParts {
  readonly links: readonly string[];
  readonly maps: readonly string[];
  readonly files: readonly string[];
}

/** Lists what an instance has in the kernel and on disk. */
export const listInstance = ({ bpfRoot, runDir }: InstancePaths): InstanceParts => ({
  ...listProgrammed(bpfRoot),
  files: filesOf(runDir),
});

/** Removes the parts that exist and returns them. Throws BPF_ROOT_IN_USE. */
export function removeInstance({ bpfRoot, runDir }: InstancePaths): InstanceParts {
  const removed = removeProgrammed(bpfRoot, runDir);
  const files = filesOf(runDir);
  for (const path of files) rmSync(path, { force: true });
  return { ...removed, files };
}

const filesOf = (runDir: string): readonly string[] =>
  [socketPath(runDir), join(runDir, REMEMBERED)].filter((path) => existsSync(path));

/** `9 links, 16 maps, 1 file`; empty if there is nothing. */
export function partsText({ links, maps, files }: InstanceParts): string {
  return [counted(links.length, 'link'), counted(maps.length, 'map'), counted(files.length, 'file')]
    .filter((text) => text !== '')
    .join(', ');
}

const counted = (count: number, noun: string): string =>
  count === 0 ? '' : `${count} ${noun}${count === 1 ? '' : 's'}`;
