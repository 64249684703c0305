// SPDX-License-Identifier: Apache-2.0
// The advice must work in the environment in which it is given.
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cgroup2Advice, namespaceName } from '../../../src/probe/cgroup-advice.ts';

const mount = (fsType: string) => ({ mountPoint: '/x', fsType, root: '/', isReadOnly: false });

test('a machine without the hierarchy: mount it', () => {
  for (const mounts of [undefined, [mount('cgroup')]]) {
    const advice = cgroup2Advice(mounts, undefined);
    expect(advice).toMatch(
      /^no cgroup v2 hierarchy is mounted: `mkdir -p \S+ && mount -t cgroup2 none \S+`/,
    );
    expect(advice).not.toContain('nsenter');
  }
});

test('a mount namespace that hides it, as under ip netns exec: enter only the network namespace', () => {
  const advice = cgroup2Advice([mount('proc'), mount('cgroup2')], 'blue');
  expect(advice).toContain('nsenter --net=/run/netns/blue fairlead run');
  expect(advice).toContain('ip netns exec');
});

test('the own network namespace has its name also if one listed before it is gone', () => {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-netns-'));
  try {
    symlinkSync('/no/such/namespace', join(folder, 'a-gone'));
    expect(namespaceName(folder)).toBeUndefined();
    symlinkSync('/proc/self/ns/net', join(folder, 'b-own'));
    expect(namespaceName(folder)).toBe('b-own');
  } finally {
    rmSync(folder, { recursive: true });
  }
});
