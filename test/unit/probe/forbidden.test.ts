// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { forbiddenBy, holds, refusalReason } from '../../../src/probe/forbidden.ts';

const ALL = 'CapEff:\t000001ffffffffff\n';
const NONE = 'CapEff:\t0000000000000000\n';
const FREE = 'Seccomp:\t0\n';
const FILTERED = 'Seccomp:\t2\n';
const LOCKED = 'none integrity [confidentiality]';

test.each([
  ['EPERM', NONE + FREE, undefined, 'this process has neither CAP_BPF nor CAP_SYS_ADMIN'],
  ['EPERM', NONE + FILTERED, undefined, 'this process has neither CAP_BPF nor CAP_SYS_ADMIN'],
  [
    'EPERM',
    ALL + FILTERED,
    undefined,
    'a seccomp filter of this process answers bpf(2) with EPERM',
  ],
  [
    'ENOSYS',
    ALL + FILTERED,
    undefined,
    'a seccomp filter of this process answers bpf(2) with ENOSYS',
  ],
  ['ENOSYS', ALL + FREE, undefined, 'the kernel was built without bpf(2) (CONFIG_BPF_SYSCALL)'],
  ['EPERM', ALL + FREE, LOCKED, 'the kernel is locked down (confidentiality)'],
  ['EPERM', ALL + FREE, '[none] integrity confidentiality', undefined],
  ['EINVAL', NONE + FILTERED, LOCKED, undefined],
])('%s with %j and lockdown %s: %s', (errno, status, lockdown, reason) => {
  expect(forbiddenBy(errno, { status, lockdown })).toBe(reason);
});

const REFUSED = "EPERM: Operation not permitted; Couldn't load trivial BPF program. Make sure";

test('a start that cannot load the smallest program names what forbids it, and what would change it', () => {
  const facts = { status: ALL + FILTERED, lockdown: undefined };
  expect(refusalReason(REFUSED, facts)).toBe(
    'a seccomp filter of this process answers bpf(2) with EPERM: allow bpf(2) in the seccomp profile of the container, and its capabilities',
  );
  expect(refusalReason(REFUSED, { ...facts, status: ALL + FREE })).toBeUndefined();
});

test('an errno of something else is not taken for a ban', () => {
  const facts = { status: ALL + FILTERED, lockdown: undefined };
  expect(refusalReason('attach: EPERM: Operation not permitted', facts)).toBeUndefined();
});

test('a capability is one bit of the effective set', () => {
  const status = `CapEff:\t${(1n << 39n).toString(16).padStart(16, '0')}\n`;
  expect(holds({ status }, 'CAP_BPF')).toBe(true);
  expect(holds({ status }, 'CAP_SYS_ADMIN')).toBe(false);
});
