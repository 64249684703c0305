// SPDX-License-Identifier: Apache-2.0
// A kernel that lacks modules of iptables (Linux 5.10 without xt_statistic and xt_recent): the Services that need them wait, with the line that was
// refused and what to do, and nothing of them is in nat; all others are served. Once the modules are loaded all are (modules.sh).
import { afterAll, expect, test } from 'vitest';
import { bootGuest } from '../../guest.ts';
import { kinds, runIn } from '../lab.ts';

const guest = await bootGuest('5.10', ['without=xt_statistic,xt_recent']);
afterAll(() => guest.stop());
const { code, output, answer } = await runIn(guest, ['modules.sh', 'iptables', 'FOLDER']);

const [A, B] = ['10.1.1.5:8080>10.1.1.9', '10.1.2.5:8080>10.1.1.9'];
/** To where the node's routes lead. */
const LEFT_ALONE = 'TIMEOUT';

test('the script ran to its end', () => expect(code, output).toBe(0));

test.each([
  ['one endpoint', A, A],
  ['two endpoints', LEFT_ALONE, `${A} ${B}`],
  ['session affinity', LEFT_ALONE, A],
  ['no endpoints', 'ECONNREFUSED', 'ECONNREFUSED'],
])('%s', (what, before, after) => {
  const saw = ['before', 'after'].map((when) => kinds(answer(`${when}, ${what}`)));
  expect(saw).toEqual([before, after]);
});

test('nothing of what waits is in nat', () => {
  expect(answer('before, lines of nat that name it')).toBe('0');
  expect(Number(answer('after, lines of nat that name it'))).toBeGreaterThan(4);
});

test.each([
  ['two', 'xt_statistic'],
  ['sticky', 'xt_recent'],
])('status has one line on default/%s: what was refused, and to load %s', (name, module) => {
  const lines = output.split('\n').filter((line) => line.startsWith('before, status: Failed:'));
  expect(lines.filter((line) => line.includes(`default/${name}`))).toHaveLength(1);
  const line = lines.find((one) => one.includes(`default/${name}`));
  expect(line).toMatch(/failed at line \d+, `-A KUBE-SVC-\S+ .*`: [^;]*; the kernel lacks/);
  expect(line?.endsWith(`the kernel lacks ${module}: load it on the node with modprobe`)).toBe(
    true,
  );
});
