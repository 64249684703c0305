// SPDX-License-Identifier: Apache-2.0
// What a control plane owns on this machine, and its removal. If this process is killed, the next control plane
// removes what is left.
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { findCgroup2, makeCgroup } from '../../../../src/sys/cgroup.ts';
import { recordOwnership, removeLeftovers, removeOwned } from '../../../../tools/lab/ownership.ts';
import type { Sandbox } from '../../../../tools/lab/sandbox.ts';

const DIRECTORY_PREFIX = 'fairlead-cluster-';
/** The owner and who finds it stale may delete the same at once. */
const DELETION = { recursive: true, force: true, maxRetries: 10 } as const;

export interface Workspace {
  /** Prefix of the names of its namespaces and its cgroup. */
  readonly prefix: string;
  /** Its files: data, keys, kubeconfigs. */
  readonly directory: string;
  /** A sandbox that is removed with the workspace, in a namespace of ours or of a topology. */
  sandbox(name: string, namespace: string): Sandbox;
  /** Kills all programs and deletes everything. Blocking and idempotent. Throws if something cannot be removed. */
  remove(): void;
}

/** Creates a workspace that is removed when this process ends. */
export function openWorkspace(): Workspace {
  const cgroupMount = findCgroup2();
  if (cgroupMount === undefined) throw new Error('no cgroup v2 hierarchy is mounted');
  removeLeftovers();
  const ownership = recordOwnership(cgroupMount);
  const { prefix, cgroup } = ownership;
  removeStaleDirectories(dirname(ownership.directory));
  const directory = join(tmpdir(), DIRECTORY_PREFIX + prefix);
  const remove = (): void => {
    process.off('exit', remove);
    try {
      removeOwned(ownership);
    } finally {
      rmSync(directory, DELETION);
    }
  };
  process.on('exit', remove);
  mkdirSync(directory, { mode: 0o700 });
  makeCgroup(join(cgroup, 'programs'));
  const sandbox = (name: string, namespace: string): Sandbox => ({
    name,
    namespace,
    cgroup: join(cgroup, 'programs'),
  });
  return { prefix, directory, sandbox, remove };
}

/** A directory without its record means that another process has removed the leftovers of a crashed run. */
function removeStaleDirectories(recordsDirectory: string): void {
  for (const name of readdirSync(tmpdir())) {
    if (!/^fairlead-cluster-fl[0-9a-z]{6}$/.test(name)) continue;
    const hasRecord = existsSync(join(recordsDirectory, name.slice(DIRECTORY_PREFIX.length)));
    if (!hasRecord) rmSync(join(tmpdir(), name), DELETION);
  }
}
