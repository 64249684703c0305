// SPDX-License-Identifier: Apache-2.0
// Finds other instances of fairlead whose hooks cover the sockets of this one. Reads pins; what cannot be read is
// treated as absent.
import { readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readMounts } from '../../sys/mounts.ts';
import { openPinnedLink } from '../../sys/native.ts';

/**
 * Other instances pinned on the same bpf file system whose hooks cover the sockets of this one: they are
 * attached to the same cgroup or to an ancestor. A descendant cannot be recognized by its id alone.
 */
export function findOtherInstances(bpfRoot: string, cgroupRoot: string): string[] {
  const mount = readMounts()
    .filter(
      ({ fsType, mountPoint }) => fsType === 'bpf' && `${bpfRoot}/`.startsWith(`${mountPoint}/`),
    )
    .sort((a, b) => b.mountPoint.length - a.mountPoint.length)[0]?.mountPoint;
  if (mount === undefined) return [];
  const serving = cgroupIds(cgroupRoot);
  return namesOf(mount)
    .map((name) => join(mount, name))
    .filter((path) => path !== bpfRoot && links(path).some((link) => serving.has(cgroupOf(link))))
    .map((path) => `another fairlead (pins below ${path})`);
}

/** Where an instance pins its links: docs/adr/0004. */
function links(bpfRoot: string): string[] {
  const folder = join(bpfRoot, 'links');
  return namesOf(folder).map((name) => join(folder, name));
}

function cgroupOf(path: string): bigint {
  try {
    const link = openPinnedLink(path);
    try {
      return link.cgroupId ?? 0n;
    } finally {
      link.close();
    }
  } catch {
    return 0n;
  }
}

/** Ids of a cgroup and of its ancestors. */
function cgroupIds(path: string): ReadonlySet<bigint> {
  const ids = new Set<bigint>();
  const device = statSync(path).dev;
  for (let at = path; ; at = dirname(at)) {
    const facts = statSync(at, { bigint: true });
    if (Number(facts.dev) !== device) return ids;
    ids.add(facts.ino);
    if (dirname(at) === at) return ids;
  }
}

function namesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
