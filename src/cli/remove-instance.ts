// SPDX-License-Identifier: Apache-2.0
// Takes one instance back: its links, maps and pins of any layout version, and the files in its run
// directory. Synchronous, so that an agent that ends can do it as its last act.
import { existsSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { lockExistingPins } from '../dataplane/bpf/loader/lock.ts';
import { listPins, unpin } from '../dataplane/bpf/loader/pins.ts';
import { socketPath } from '../server/admin-socket.ts';
import { openPinnedLink } from '../sys/native.ts';

/** Written by src/source/apiserver/transport/remembered.ts. */
const REMEMBERED = 'api-servers.json';

export interface InstancePaths {
  readonly bpfRoot: string;
  readonly runDir: string;
}

/** Everything that was removed, or is there: pins by their path below bpfRoot, files by their own. */
export interface InstanceParts {
  readonly links: readonly string[];
  readonly maps: readonly string[];
  readonly files: readonly string[];
}

/** What an instance has in the kernel and on disk. Changes nothing. */
export function listInstance({ bpfRoot, runDir }: InstancePaths): InstanceParts {
  const pins = listPins(bpfRoot).map((path) => relative(bpfRoot, path));
  const files = [socketPath(runDir), join(runDir, REMEMBERED)];
  return {
    links: pins.filter((name) => name.includes('links/')),
    maps: pins.filter((name) => !name.includes('links/')),
    files: files.filter((path) => existsSync(path)),
  };
}

/** Removes it; nothing there is success. Throws BPF_ROOT_IN_USE. */
export function removeInstance(paths: InstancePaths): InstanceParts {
  const { bpfRoot, runDir } = paths;
  const lock = lockExistingPins(bpfRoot, { command: 'cleanup', runDir });
  try {
    const parts = listInstance(paths);
    for (const name of parts.links) {
      detach(join(bpfRoot, name));
      unpin(join(bpfRoot, name));
    }
    for (const name of parts.maps) unpin(join(bpfRoot, name));
    for (const path of parts.files) rmSync(path, { force: true });
    lock?.removeEmptyFolders();
    return parts;
  } finally {
    lock?.close();
  }
}

/** Unpinning alone would leave the link attached while another process holds it. */
function detach(path: string): void {
  const link = openPinnedLink(path);
  try {
    link.detach();
  } catch {
    // The cgroup is gone, and the kernel has detached the link with it.
  } finally {
    link.close();
  }
}

/** `9 links, 16 maps, 1 file`; empty if there is nothing. */
export function partsText({ links, maps, files }: InstanceParts): string {
  return [counted(links.length, 'link'), counted(maps.length, 'map'), counted(files.length, 'file')]
    .filter((text) => text !== '')
    .join(', ');
}

const counted = (count: number, noun: string): string =>
  count === 0 ? '' : `${count} ${noun}${count === 1 ? '' : 's'}`;
