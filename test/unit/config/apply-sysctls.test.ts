// SPDX-License-Identifier: Apache-2.0
// Kernel settings written below a temporary root; the real /proc and /sys are never touched.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { oomScoreWrite, type SysctlWrite } from '../../../src/config/sysctls.ts';
import { applySysctls, countCpus, failureOf } from '../../../src/instance/preflight/sysctls.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'fairlead-sysctls-'));
});
afterEach(() => rmSync(root, { recursive: true }));

function holding(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

const MAX = 'proc/sys/net/netfilter/nf_conntrack_max';

const rows: readonly (readonly [
  name: string,
  was: string,
  rule: SysctlWrite['rule'],
  outcome: string,
  now: string,
])[] = [
  ['a smaller value is raised', '5\n', 'raise', 'written', '10\n'],
  ['a larger value stays where it may', '11\n', 'raise', 'kept', '11\n'],
  ['a larger value is lowered where it must', '11\n', 'set', 'written', '10\n'],
  ['the same value is not written again', '10', 'set', 'kept', '10'],
];
test.each(rows)('%s', (_, was, rule, outcome, now) => {
  holding(MAX, was);
  expect(applySysctls([{ path: MAX, value: 10, rule }], root)).toEqual([
    { path: MAX, value: 10, outcome, was: Number(was) },
  ]);
  expect(readFileSync(join(root, MAX), 'utf8')).toBe(now);
});

test('a setting that the kernel lacks is reported, not created, and the others are applied', () => {
  const score = oomScoreWrite(-999);
  holding(score.path, '0\n');
  const results = applySysctls([{ path: MAX, value: 10, rule: 'set' }, score], root);
  expect(results).toEqual([
    {
      path: MAX,
      value: 10,
      outcome: 'missing',
      reason:
        'nf_conntrack is not loaded: load it first, or set conntrack.maxPerCore to 0 to skip it',
    },
    { path: score.path, value: -999, outcome: 'written', was: 0 },
  ]);
  expect(() => readFileSync(join(root, MAX))).toThrow(/ENOENT/);
});

test('other missing settings are not attributed to conntrack', () => {
  const path = 'proc/sys/net/ipv4/conf/all/route_localnet';
  const [result] = applySysctls([{ path, value: 1, rule: 'set' }], root);
  expect(result).toMatchObject({ outcome: 'missing', reason: 'this kernel has no such setting' });
});

test('a setting that cannot be read or written fails with the reason', () => {
  mkdirSync(join(root, MAX), { recursive: true });
  const [result] = applySysctls([{ path: MAX, value: 10, rule: 'set' }], root);
  expect(result).toMatchObject({ outcome: 'failed', reason: expect.stringContaining('EISDIR') });
});

test.each(['EACCES', 'EPERM', 'EROFS'])('an error %s says what to do', (code) => {
  expect(failureOf(MAX, Object.assign(new Error('no'), { code }))).toEqual({
    outcome: 'failed',
    reason:
      'not writable: run once with --init-only as full root on the host, or set it on the node',
  });
});

test('the CPUs of the machine are counted; without /sys those of the process', () => {
  expect(countCpus(root)).toBe(availableParallelism());
  holding('sys/devices/system/cpu/online', '0-3,5,8-9\n');
  expect(countCpus(root)).toBe(7);
  holding('sys/devices/system/cpu/online', 'many\n');
  expect(countCpus(root)).toBe(availableParallelism());
});

test('the OOM score is not a setting of the node: the error names what sets it', () => {
  const refused = failureOf(
    oomScoreWrite(-999).path,
    Object.assign(new Error(''), { code: 'EACCES' }),
  );
  expect(refused.reason).toContain('CAP_SYS_RESOURCE');
  expect(refused.reason).toContain('kubelet');
});
