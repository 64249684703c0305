// SPDX-License-Identifier: Apache-2.0
// The kernel memory that this process has caused: what the memory controller charges to a cgroup of its own (slab
// objects, pages of tables, per-CPU memory), else the growth of the whole machine's. The size that a map reports
// (`memlock`) leaves out how the kernel rounds sizes up.
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const lineOf = (path, pattern) => pattern.exec(readFileSync(path, 'utf8'))?.[1];

/** @returns {{name: string, read: () => number, close: () => void}} */
export function openMeter() {
  return ofController() ?? ofMachine();
}

function ofController() {
  const path = lineOf('/proc/self/cgroup', /^\d+:memory:(.*)$/m);
  const root = lineOf('/proc/self/mounts', /^\S+ (\S+) cgroup \S*\bmemory\b/m);
  if (path === undefined || root === undefined) return undefined;
  const parent = join(root, path);
  const own = join(parent, `fairlead-bench-${process.pid}`);
  const usage = join(own, 'memory.kmem.usage_in_bytes');
  mkdirSync(own);
  const enter = (cgroup) => writeFileSync(join(cgroup, 'cgroup.procs'), String(process.pid));
  enter(own);
  return {
    name: 'memory cgroup',
    read: () => Number(readFileSync(usage, 'utf8')),
    close: () => {
      enter(parent);
      rmdirSync(own);
    },
  };
}

/** cgroup v2, without one of its own: what is charged to the one it is in; else the machine's. */
function ofMachine() {
  const path = lineOf('/proc/self/cgroup', /^0::(.*)$/m);
  const root = lineOf('/proc/self/mounts', /^\S+ (\S+) cgroup2 /m);
  const stat = join(root ?? '/', path ?? '', 'memory.stat');
  if (root !== undefined && existsSync(stat)) {
    const read = () => Number(lineOf(stat, /^kernel (\d+)$/m));
    return { name: 'memory cgroup', read, close: () => undefined };
  }
  const field = (of) => 1024 * Number(lineOf('/proc/meminfo', new RegExp(`^${of}: +(\\d+)`, 'm')));
  const read = () => field('SUnreclaim') + field('VmallocUsed') + field('Percpu');
  return { name: "the machine's slab, vmalloc and per-CPU memory", read, close: () => undefined };
}
