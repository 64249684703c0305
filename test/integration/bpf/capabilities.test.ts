// SPDX-License-Identifier: Apache-2.0
// A process with only CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON loads every program.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { socketObject } from './support/drive.ts';

const child = fileURLToPath(new URL('./support/load-child.mjs', import.meta.url));
const addon = fileURLToPath(new URL('../../../build/native/fairlead.node', import.meta.url));
const THREE = '000000c000001000';
/** Limit on verified instructions; the kernel's own is 1,000,000. */
const LIMIT = 40_000;

test.each([
  ['unknown', 'cannot', '0', '0'],
  ['unknown', 'can', '0', '1'],
  ['known', 'cannot', '5', '0'],
  ['known', 'can', '5', '1'],
])('loads with three capabilities: the namespace is %s, set_retval %s be called', (...row) => {
  const [, , cookie, canSetRetval] = row;
  const only = ['--bounding-set=-all,+bpf,+net_admin,+perfmon', '--inh-caps=-all'];
  const load = [process.execPath, child, addon, socketObject, cookie, canSetRetval];
  const { capabilities, programs, ...refusal } = JSON.parse(
    execFileSync('setpriv', [...only, ...load], { encoding: 'utf8' }),
  );
  expect(refusal).toEqual({});
  expect(capabilities).toBe(THREE);
  const walked = Object.entries(programs as Record<string, number>);
  process.stdout.write(`with three capabilities: ${walked.map((w) => w.join(' ')).join(', ')}\n`);
  expect(walked).toHaveLength(11);
  expect(walked.filter(([, count]) => count > LIMIT)).toEqual([]);
});
