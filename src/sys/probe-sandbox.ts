// SPDX-License-Identifier: Apache-2.0
// A network namespace, a bpf file system and a cgroup to try things in, for one process. The namespaces are those that the
// process was started in, and end with it; the cgroup is removed by whoever made it. What could not be set up throws
// CouldNotTell where it is asked for.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { reasonOf } from '../errors.ts';
import { findCgroup2, removeCgroup } from './cgroup.ts';
import { raiseLoopback } from './loopback.ts';
import * as native from './native.ts';

/** Thrown by an attempt that could not be made. Whatever else an attempt throws means no. */
export class CouldNotTell extends Error {}

/** What the starting process has made; each a reason if it could not. */
export interface Prepared {
  readonly network: string | undefined;
  readonly mounts: string | undefined;
  readonly cgroup: { readonly path: string } | { readonly problem: string };
}

export interface ProbeSandbox {
  /** A network namespace with a loopback device that is up. */
  network(): void;
  /** Without one, this process is in that of whoever started it. */
  readonly hasNetwork: boolean;
  /** A cgroup v2 directory, with this process in it. */
  cgroup(): string;
  /** A folder on a bpf file system that no other process sees. */
  bpfRoot(): string;
  /** Takes this process out of the cgroup and removes it: only if whoever made it is gone. */
  abandon(): void;
}

export function enterProbeSandbox(prepared: Prepared): ProbeSandbox {
  const network = once(() => {
    if (prepared.network !== undefined) throw new CouldNotTell(prepared.network);
    told('the loopback device of a new network namespace', raiseLoopback);
  });
  const cgroup = once(() => {
    if ('problem' in prepared.cgroup) throw new CouldNotTell(prepared.cgroup.problem);
    const { path } = prepared.cgroup;
    told('entering a new cgroup', () => enterCgroup(path));
    return path;
  });
  const bpfRoot = once(() => {
    if (prepared.mounts !== undefined) throw new CouldNotTell(prepared.mounts);
    return told('mounting a bpf file system', mountOwnBpffs);
  });
  const hasNetwork = prepared.network === undefined;
  return { network, hasNetwork, cgroup, bpfRoot, abandon: () => leaveCgroup(prepared.cgroup) };
}

function told<T>(what: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new CouldNotTell(`${what}: ${reasonOf(error)}`);
  }
}

/** The first outcome is that of every call. */
function once<T>(work: () => T): () => T {
  let outcome: { readonly value: T } | { readonly error: unknown } | undefined;
  return () => {
    outcome ??= attempt(work);
    if ('error' in outcome) throw outcome.error;
    return outcome.value;
  };
}

function attempt<T>(work: () => T): { readonly value: T } | { readonly error: unknown } {
  try {
    return { value: work() };
  } catch (error) {
    return { error };
  }
}

const enterCgroup = (path: string): void =>
  writeFileSync(join(path, 'cgroup.procs'), String(process.pid));

/** Something to mount over, in this mount namespace alone. */
const MOUNT_POINTS = ['/sys/fs/bpf', '/mnt', '/tmp'];

function mountOwnBpffs(): string {
  const path = MOUNT_POINTS.find((one) => existsSync(one));
  if (path === undefined) throw new Error(`none of ${MOUNT_POINTS.join(', ')} is there`);
  native.mountBpffs(path);
  return join(path, 'probe');
}

const REMOVED_MS = 5_000;

function leaveCgroup(cgroup: Prepared['cgroup']): void {
  if ('problem' in cgroup || !existsSync(cgroup.path)) return;
  for (const path of [dirname(cgroup.path), findCgroup2() ?? '']) {
    try {
      enterCgroup(path);
      // A program that an attempt has started may still be there.
      removeCgroup(cgroup.path, REMOVED_MS);
      return;
    } catch {
      // A cgroup with controllers takes no processes: the next.
    }
  }
}

/** Of this process, from /proc/self/status; empty where there is none, as on another system than Linux: nothing is held. */
export function ownStatus(path = '/proc/self/status'): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** undefined: the kernel has no lockdown, or securityfs is not mounted. */
export function readLockdown(): string | undefined {
  try {
    return readFileSync('/sys/kernel/security/lockdown', 'utf8');
  } catch {
    return undefined;
  }
}
