// SPDX-License-Identifier: Apache-2.0
// Makes namespaces and a cgroup to try things in, starts the process that tries, and collects its answers. An attempt that
// ends that process, or takes too long, could not tell; the next process goes on behind it.

import { existsSync, mkdirSync, readdirSync, rmdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { reasonOf } from '../../errors.ts';
import { findCgroup2, removeCgroup } from '../../sys/cgroup.ts';
import { type Child, start } from '../../sys/exec.ts';
import * as native from '../../sys/native.ts';
import type { Prepared } from '../../sys/probe-sandbox.ts';
import { FEATURES, type Feature, type FeatureName } from '../features.ts';
import { parseLine, type Result, type Results } from '../results.ts';
import type { InsideParts } from './inside.ts';

export interface ProbeOptions {
  /** Where the cgroup is made; undefined: at the root of the hierarchy. */
  readonly cgroupRoot: string | undefined;
  readonly features: readonly FeatureName[];
  /** Of one attempt. */
  readonly timeoutMs: number;
  /** For tests: another program than this one. */
  readonly startInside?: (parts: InsideParts, onLine: (line: string) => void) => Child;
}

/** This thread stays in the namespaces that it makes: call it in a process of its own. */
export async function probe(options: ProbeOptions): Promise<Results> {
  const network = problemOf('a new network namespace', native.unshareNetwork);
  const prepared: Prepared = options.features.every(isOfNetwork)
    ? { network, mounts: NOT_MADE, cgroup: { problem: NOT_MADE } }
    : {
        network,
        mounts: problemOf('a new mount namespace', native.unshareMounts),
        cgroup: makeCgroup(options.cgroupRoot),
      };
  try {
    return await probeAll(prepared, options);
  } finally {
    if ('path' in prepared.cgroup) removeCgroup(prepared.cgroup.path);
  }
}

/** Attempts of these groups need no more than a network namespace. */
const OF_NETWORK: readonly Feature['group'][] = ['userspace', 'node'];
const isOfNetwork = (name: FeatureName): boolean => OF_NETWORK.includes(FEATURES[name].group);
const NOT_MADE = 'not made: the engine asked for does not use it';

function problemOf(what: string, make: () => void): string | undefined {
  try {
    make();
    return undefined;
  } catch (error) {
    const isDenied = error instanceof Error && 'code' in error && error.code === 'EPERM';
    return isDenied ? `${what} needs CAP_SYS_ADMIN` : `${what}: ${reasonOf(error)}`;
  }
}

function makeCgroup(cgroupRoot: string | undefined): Prepared['cgroup'] {
  const root = cgroupRoot ?? findCgroup2();
  if (root === undefined) return { problem: 'no cgroup v2 hierarchy is mounted, writable' };
  const path = join(root, `fairlead-probe-${process.pid}`);
  const problem = problemOf('a new cgroup', () => {
    removeLeftCgroups(root);
    mkdirSync(path);
  });
  return problem === undefined ? { path } : { problem };
}

/** Every feature has an answer. */
export async function probeAll(
  prepared: Prepared,
  options: Omit<ProbeOptions, 'cgroupRoot'>,
): Promise<Results> {
  const results = new Map<FeatureName, Result>();
  for (;;) {
    const features = options.features.filter((name) => !results.has(name));
    if (features.length === 0) return results;
    const { begun, end } = await probeSome({ prepared, features }, options, results);
    const reason = `the attempt ${end}`;
    // What ended before it began ends again.
    for (const name of begun === undefined ? features : [begun]) {
      if (!results.has(name)) results.set(name, { answer: 'could not tell', reason });
    }
  }
}

interface Ended {
  /** The last attempt that has begun. */
  readonly begun: FeatureName | undefined;
  readonly end: string;
}

async function probeSome(
  parts: InsideParts,
  { timeoutMs, startInside = startSelf }: Pick<ProbeOptions, 'timeoutMs' | 'startInside'>,
  results: Map<FeatureName, Result>,
): Promise<Ended> {
  let begun: FeatureName | undefined;
  let isLate = false;
  let timer: NodeJS.Timeout | undefined;
  const child = startInside(parts, (text) => {
    const line = parseLine(text);
    if (line === undefined) return;
    restart();
    if ('begin' in line) begun = line.begin;
    else results.set(line.feature, { answer: line.answer, reason: line.reason });
  });
  const restart = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      isLate = true;
      child.kill('SIGKILL');
    }, timeoutMs);
  };
  restart();
  const code = await child.exited;
  clearTimeout(timer);
  return { begun, end: isLate ? `took more than ${timeoutMs / 1000} s` : `ended with ${code}` };
}

const startSelf: NonNullable<ProbeOptions['startInside']> = (parts, onStdoutLine) =>
  start(process.execPath, [process.argv[1] ?? '', 'probe', '--inside', JSON.stringify(parts)], {
    onStdoutLine,
  });

// Cgroups of probes that were killed together with the process that tries: nobody else removes them.
const NAME = /^fairlead-probe-([1-9]\d*)$/;
/** That of a probe in another PID namespace, whose process is not seen here, is empty for a moment only. */
const LEFT_AFTER_MS = 600_000;

function removeLeftCgroups(root: string): void {
  for (const name of readdirSync(root)) {
    const [, pid] = NAME.exec(name) ?? [];
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue;
    try {
      const path = join(root, name);
      if (Date.now() - statSync(path).mtimeMs > LEFT_AFTER_MS) rmdirSync(path);
    } catch {
      // Something is in it, or another probe has just removed it.
    }
  }
}
