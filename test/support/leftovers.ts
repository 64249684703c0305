// SPDX-License-Identifier: Apache-2.0
// What a topology has left on this machine; must be empty at the end of every test.
import { existsSync } from 'node:fs';
import { listProcesses } from '../../src/sys/cgroup.ts';
import { readMounts } from '../../src/sys/mounts.ts';
import { ownNamespaces } from '../../tools/lab/ownership.ts';
import type { Topology } from '../../tools/lab/topology.ts';

/** A prefix of namespaces, a folder of files and mounts, and cgroups of processes. */
interface Names {
  readonly prefix: string;
  readonly directory: string;
  readonly cgroups: readonly string[];
}

export function leftoversBelow({ prefix, directory, cgroups }: Names): string[] {
  const mounts = readMounts().filter(({ mountPoint }) => mountPoint.startsWith(`${directory}/`));
  return [
    ...ownNamespaces(prefix).map((name) => `namespace ${name}`),
    ...cgroups.flatMap(listProcesses).map((pid) => `process ${pid}`),
    ...cgroups.filter(existsSync).map((path) => `cgroup ${path}`),
    ...mounts.map(({ mountPoint }) => `mount ${mountPoint}`),
    ...(existsSync(directory) ? [`folder ${directory}`] : []),
  ];
}

export const leftoversOf = ({ prefix, directory, toolsCgroup, nodes }: Topology): string[] =>
  leftoversBelow({
    ...{ prefix, directory },
    cgroups: [toolsCgroup, ...nodes.map(({ cgroup }) => cgroup)],
  });
