// SPDX-License-Identifier: Apache-2.0
// Where network namespaces can be opened, by their inode numbers: this process's own, those that are mounted
// (container runtimes and ip(8) do that below /run/netns), and those of the processes that /proc shows.
import { readdir, readFile, stat } from 'node:fs/promises';
import { parseMountInfo } from './mounts.ts';

export const OWN_NETNS = '/proc/self/ns/net';

/** undefined: it is gone, or may not be read (that takes CAP_SYS_PTRACE for processes of others). */
async function netnsInode(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).ino;
  } catch {
    return undefined;
  }
}

/**
 * Path by inode number, of the wanted ones or of all. Processes are read one after the other, and only until every
 * wanted one is found: 20 µs each.
 */
export async function netnsPaths(
  wanted?: ReadonlySet<number>,
): Promise<ReadonlyMap<number, string>> {
  const paths = new Map<number, string>();
  const hasAll = (): boolean => wanted !== undefined && paths.size === wanted.size;
  const add = (inode: number | undefined, path: string): void => {
    if (inode === undefined || paths.has(inode)) return;
    if (wanted === undefined || wanted.has(inode)) paths.set(inode, path);
  };
  add(await netnsInode(OWN_NETNS), OWN_NETNS);
  if (!hasAll()) {
    for (const [inode, path] of mountedNetns(await readFile('/proc/self/mountinfo', 'utf8'))) {
      add(inode, path);
    }
  }
  if (hasAll()) return paths;
  for (const pid of await processes()) {
    const path = `/proc/${pid}/ns/net`;
    add(await netnsInode(path), path);
    if (hasAll()) break;
  }
  return paths;
}

/** Of those that are mounted alone: cheaper, and what container runtimes do before a pod starts. */
export async function mountedPaths(): Promise<readonly string[]> {
  return mountedNetns(await readFile('/proc/self/mountinfo', 'utf8')).map(([, path]) => path);
}

/** `… net:[4026532288] /run/netns/pod …` -> [4026532288, '/run/netns/pod']. */
export function mountedNetns(mountInfo: string): readonly (readonly [number, string])[] {
  return parseMountInfo(mountInfo).flatMap(({ fsType, root, mountPoint }) => {
    const inode = fsType === 'nsfs' ? /^net:\[(\d+)\]$/.exec(root)?.[1] : undefined;
    return inode === undefined ? [] : [[Number(inode), mountPoint] as const];
  });
}

async function processes(): Promise<readonly string[]> {
  return (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
}
