// SPDX-License-Identifier: Apache-2.0
// Which files below a folder are manifests. Follows symbolic links, as a mounted ConfigMap needs, but
// sees no file twice and takes nothing whose name begins with a dot.
import type { BigIntStats } from 'node:fs';
import { lstat, readdir, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { reasonOf } from '../../errors.ts';
import { compareText } from '../../lib/names.ts';

const EXTENSION = /\.(yaml|yml|json)$/;

/** A file changed this recently may change again without its times showing it. */
const SETTLED_MS = 100;

/** One manifest file, or why it (or a folder) cannot be read. */
export type Found =
  | {
      readonly kind: 'file';
      readonly path: string;
      /** Equal signatures mean equal content; undefined = changed too recently to tell. */
      readonly signature: string | undefined;
    }
  | { readonly kind: 'failure'; readonly path: string; readonly reason: string };

export interface Listing {
  /** Sorted by path. */
  readonly found: readonly Found[];
  /** Folders in which a change matters: path -> identity, which differs once a folder is replaced. */
  readonly folders: ReadonlyMap<string, string>;
  /** False if the top folder could not be listed, or a folder went or was replaced meanwhile: then a file that is absent may not be gone. */
  readonly isComplete: boolean;
}

interface Walk {
  readonly found: Found[];
  readonly folders: Map<string, string>;
  /** Device and inode of every file and folder met. */
  readonly seen: Set<string>;
  readonly beforeFolder: (path: string, identity: string) => void;
}

/** `beforeFolder` is called before a folder is listed, so that a watch set there misses nothing. */
export async function listManifests(
  top: string,
  beforeFolder: (path: string, identity: string) => void = () => {},
): Promise<Listing> {
  const walk: Walk = { found: [], folders: new Map(), seen: new Set(), beforeFolder };
  let isComplete = true;
  try {
    await visitFolder(walk, top, await stat(top, { bigint: true }));
  } catch (error) {
    isComplete = false;
    walk.found.push({ kind: 'failure', path: top, reason: reasonOf(error) });
  }
  walk.found.sort((a, b) => compareText(a.path, b.path));
  isComplete &&= await areUnmoved(walk.folders);
  return { found: walk.found, folders: walk.folders, isComplete };
}

/** Files of a folder that is moved between its listing and their stat are missing without being deleted. */
async function areUnmoved(folders: ReadonlyMap<string, string>): Promise<boolean> {
  const now = [...folders].map(async ([path, identity]) => {
    const facts = await stat(path, { bigint: true }).catch(() => undefined);
    return facts !== undefined && identityOf(facts) === identity;
  });
  return (await Promise.all(now)).every((isSame) => isSame);
}

async function visitFolder(walk: Walk, path: string, facts: BigIntStats): Promise<void> {
  if (isSeenBefore(walk, facts)) return;
  noteFolder(walk, path, facts);
  const names = await readdir(path);
  for (const name of names.sort(compareText)) {
    if (name.startsWith('.')) continue;
    try {
      await visit(walk, join(path, name));
    } catch (error) {
      const reason = await unreadableReason(join(path, name), error);
      if (reason !== undefined)
        walk.found.push({ kind: 'failure', path: join(path, name), reason });
    }
  }
}

async function visit(walk: Walk, path: string): Promise<void> {
  const isManifest = EXTENSION.test(path);
  let facts: BigIntStats;
  try {
    facts = await stat(path, { bigint: true });
  } catch (error) {
    if (isManifest) throw error;
    return;
  }
  if (facts.isDirectory()) {
    await visitFolder(walk, path, facts);
  } else if (isManifest && !isSeenBefore(walk, facts)) {
    // A link's target may be edited where no listed folder shows it.
    const home = dirname(await realpath(path));
    if (!walk.folders.has(home)) noteFolder(walk, home, await stat(home, { bigint: true }));
    walk.found.push(
      facts.isFile()
        ? { kind: 'file', path, signature: signatureOf(facts) }
        : { kind: 'failure', path, reason: 'is neither a file nor a folder' },
    );
  }
}

function isSeenBefore(walk: Walk, { dev, ino }: BigIntStats): boolean {
  const key = `${dev}:${ino}`;
  if (walk.seen.has(key)) return true;
  walk.seen.add(key);
  return false;
}

/** Inode numbers are used again: the time of birth tells a new folder from an old one. */
const identityOf = ({ dev, ino, birthtimeNs }: BigIntStats): string =>
  `${dev}:${ino}:${birthtimeNs}`;

function noteFolder(walk: Walk, path: string, facts: BigIntStats): void {
  const identity = identityOf(facts);
  walk.folders.set(path, identity);
  walk.beforeFolder(path, identity);
}

function signatureOf({
  dev,
  ino,
  size,
  mtimeNs,
  ctimeNs,
  ctimeMs,
}: BigIntStats): string | undefined {
  if (Date.now() - Number(ctimeMs) < SETTLED_MS) return undefined;
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
}

/** In words; undefined if the thing is simply gone, which is no failure. */
async function unreadableReason(path: string, error: unknown): Promise<string | undefined> {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT'))
    return reasonOf(error);
  const isLink = await lstat(path).then(
    (facts) => facts.isSymbolicLink(),
    () => false,
  );
  return isLink ? 'is a dangling symbolic link' : undefined;
}
