// SPDX-License-Identifier: Apache-2.0
// The instance's folder on the bpf file system: <bpf-root>/v<layout>/{maps,links}. What lies there
// outlives the agent; a folder of another layout version is never touched.
import { existsSync, mkdirSync, readdirSync, rmdirSync, unlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { FairleadError } from '../../../errors.ts';
import * as native from '../../../sys/native.ts';

/** Bump when the meaning or size of any pinned struct changes. */
export const LAYOUT_VERSION = 1;

const BPFFS_MAGIC = 0xcafe4a11;
const DEFAULT_MOUNT = '/sys/fs/bpf';

export interface PinFolder {
  readonly root: string;
  readonly maps: string;
  readonly links: string;
}

export function pinFolder(bpfRoot: string): PinFolder {
  const root = join(bpfRoot, `v${LAYOUT_VERSION}`);
  return { root, maps: join(root, 'maps'), links: join(root, 'links') };
}

/** Makes the folders for pins. Throws OTHER_LAYOUT if bpfRoot holds pins of another layout version. */
export function preparePins(bpfRoot: string): PinFolder {
  refuseOtherLayouts(bpfRoot);
  const folder = pinFolder(bpfRoot);
  mkdirSync(folder.maps, { recursive: true });
  mkdirSync(folder.links, { recursive: true });
  return folder;
}

/** Throws NO_BPFFS if no pins can be made at bpfRoot; the customary /sys/fs/bpf is mounted if it is not. */
export function ensureBpffs(bpfRoot: string): void {
  let nearest = bpfRoot;
  while (!existsSync(nearest)) nearest = dirname(nearest);
  if (isBpffs(nearest)) return;
  const isDefault = bpfRoot === DEFAULT_MOUNT || bpfRoot.startsWith(`${DEFAULT_MOUNT}/`);
  if (isDefault && existsSync(DEFAULT_MOUNT)) {
    native.mountBpffs(DEFAULT_MOUNT);
    return;
  }
  throw new FairleadError(
    'NO_BPFFS',
    `--bpf-root ${bpfRoot} is not on a bpf file system: mount one with \`mount -t bpf bpf ${dirname(bpfRoot)}\`, or use a folder below ${DEFAULT_MOUNT}`,
  );
}

function isBpffs(path: string): boolean {
  return native.fileSystemType(path) === BPFFS_MAGIC;
}

function refuseOtherLayouts(bpfRoot: string): void {
  if (!existsSync(bpfRoot)) return;
  const other = readdirSync(bpfRoot).find(
    (name) => /^v\d+$/.test(name) && name !== `v${LAYOUT_VERSION}`,
  );
  if (other === undefined) return;
  throw new FairleadError(
    'OTHER_LAYOUT',
    `${join(bpfRoot, other)} holds pins of layout ${other}, this fairlead writes v${LAYOUT_VERSION}: run \`fairlead cleanup --bpf-root ${bpfRoot}\` (connections through it end) or use another --bpf-root`,
  );
}

/** Removes an empty pin folder tree; what is not empty stays. */
export function removeEmptyFolders(bpfRoot: string): void {
  for (const path of [...foldersBelow(bpfRoot), bpfRoot]) {
    try {
      rmdirSync(path);
    } catch {
      // Not empty, or a mount point: not ours to force.
    }
  }
}

/** Deepest first. */
function foldersBelow(path: string): readonly string[] {
  if (!existsSync(path)) return [];
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .flatMap((entry) => [...foldersBelow(join(path, entry.name)), join(path, entry.name)]);
}

/** Every pinned object of every layout version, links before maps. Symbolic links are no pins. */
export function listPins(bpfRoot: string): readonly string[] {
  const files = [bpfRoot, ...foldersBelow(bpfRoot)].flatMap((folder) =>
    existsSync(folder)
      ? readdirSync(folder, { withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map((entry) => join(folder, entry.name))
      : [],
  );
  const isLink = (path: string): boolean => path.includes('/links/');
  return [...files.filter(isLink), ...files.filter((path) => !isLink(path))];
}

export function unpin(path: string): void {
  unlinkSync(path);
}
