// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { ERRORS, type ErrorCode, FairleadError } from '../../../src/errors.ts';
import { mayFallBack } from '../../../src/probe/fallback.ts';

const FACTS = { servesPackets: true, isAttached: false, mayWriteRules: true };
const error = (code: ErrorCode) => new FairleadError(code, 'x');

test('iptables serves where the kernel, the node or this process lacks something', () => {
  const codes = (Object.keys(ERRORS) as ErrorCode[]).filter((code) =>
    mayFallBack(error(code), FACTS),
  );
  expect(codes).toEqual([
    ...['NO_PRIVILEGE', 'NO_CGROUP2', 'NO_BTF', 'OLD_KERNEL', 'PROGRAM_REFUSED', 'ATTACH_FAILED'],
  ]);
  expect(mayFallBack(new Error('a bug'), FACTS)).toBe(false);
});

test.each([
  ['with --devices none, where packets are left to somebody else', { servesPackets: false }],
  ['while programs of an earlier agent are attached', { isAttached: true }],
  ['without CAP_NET_ADMIN', { mayWriteRules: false }],
])('but not %s', (_, facts) => {
  expect(mayFallBack(error('PROGRAM_REFUSED'), { ...FACTS, ...facts })).toBe(false);
});
