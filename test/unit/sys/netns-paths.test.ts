// SPDX-License-Identifier: Apache-2.0
import { statSync } from 'node:fs';
import { expect, test } from 'vitest';
import { mountedNetns, netnsPaths, OWN_NETNS } from '../../../src/sys/netns-paths.ts';

test('mounted network namespaces are known by their inode numbers', () => {
  const text = `31 1 8:1 / / rw - ext4 /dev/sda1 rw
570 25 0:4 net:[4026532288] /run/netns/cni-1 rw shared:300 - nsfs nsfs rw
571 25 0:4 mnt:[4026532289] /run/snapd/ns/lxd.mnt rw - nsfs nsfs rw
572 25 0:4 net:[4026532290] /run/docker/netns/a\\040b rw shared:301 - nsfs nsfs rw
`;
  expect(mountedNetns(text)).toEqual([
    [4026532288, '/run/netns/cni-1'],
    [4026532290, '/run/docker/netns/a b'],
  ]);
});

test('its own is found first, and alone if it alone is wanted', async () => {
  const { ino } = statSync(OWN_NETNS);
  expect(await netnsPaths(new Set([ino]))).toEqual(new Map([[ino, OWN_NETNS]]));
  expect([...(await netnsPaths())][0]).toEqual([ino, OWN_NETNS]);
});

test('one that nobody has is not found', async () => {
  expect(await netnsPaths(new Set([1]))).toEqual(new Map());
});
