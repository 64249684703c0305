// SPDX-License-Identifier: Apache-2.0
// mountinfo as systems of several kinds write it.
import { expect, test } from 'vitest';
import { findCgroup2 } from '../../../src/sys/cgroup.ts';
import { isBpffs, parseMountInfo } from '../../../src/sys/mounts.ts';

const hybrid = `22 27 0:21 / /proc rw,relatime - proc proc rw
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`;
const unified = `24 1 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw
30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:9 master:3 - cgroup2 cgroup2 rw,nsdelegate
36 24 0:31 / /sys/fs/bpf rw,nosuid shared:12 - bpf bpf rw,mode=700
`;

test.each([
  {
    name: 'a hybrid system has cgroup v2 beside v1',
    text: hybrid,
    mount: '/sys/fs/cgroup/unified',
  },
  { name: 'a unified system has it at the top', text: unified, mount: '/sys/fs/cgroup' },
  { name: 'a system with v1 only has none', text: hybrid.split('\n')[1] ?? '', mount: undefined },
  {
    name: 'a read-only mount is of no use',
    text: '9 1 0:1 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup2 rw',
    mount: undefined,
  },
  {
    name: 'the whole hierarchy is preferred to a part of it',
    text: '9 1 0:1 /a /part rw - cgroup2 none rw\n10 1 0:1 / /whole rw - cgroup2 none rw',
    mount: '/whole',
  },
])('$name', ({ text, mount }) => {
  expect(findCgroup2(parseMountInfo(text))).toBe(mount);
});

test('a mount point with a space is read as written', () => {
  const [mount] = parseMountInfo('9 1 0:1 / /mnt/my\\040disk\\134 rw - ext4 /dev/sda rw');
  expect(mount?.mountPoint).toBe('/mnt/my disk\\');
});

test('lines that are not mountinfo are left out', () => {
  expect(parseMountInfo('\nnonsense\n1 2 3\n - \n')).toEqual([]);
});

test('bpffs is recognised at its mount point only, and not under a later mount', () => {
  const mounts = parseMountInfo(unified);
  expect(isBpffs('/sys/fs/bpf', mounts)).toBe(true);
  expect(isBpffs('/sys/fs/bpf/fairlead', mounts)).toBe(false);
  const covered = parseMountInfo(`${unified}50 36 0:40 / /sys/fs/bpf rw - tmpfs tmpfs rw`);
  expect(isBpffs('/sys/fs/bpf', covered)).toBe(false);
});
