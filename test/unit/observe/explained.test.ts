// SPDX-License-Identifier: Apache-2.0
// What the agent answers about a large Maglev table is what the plan alone says, and the event loop runs while it is made.
import { afterEach, expect, test, vi } from 'vitest';
import { BPF } from '../../../src/engines/capabilities.ts';
import { answer } from '../../../src/observe/answer.ts';
import { explained } from '../../../src/observe/explained.ts';
import { backend, clusterIp, planOf, servicePort } from '../engines/bpf/plans.ts';

const ALL = Array.from({ length: 120 }, (_, n) => backend(`10.1.1.${1 + n}`));
const PLAN = planOf(
  servicePort('web', [clusterIp('10.96.0.10')], ALL, { algorithm: 'maglev' }),
  servicePort('even', [clusterIp('10.96.0.11')], ALL),
);
const SERVING = { dataplanes: [BPF] };

afterEach(() => vi.restoreAllMocks());

/** How often the event loop has run meanwhile, if a millisecond passes between two looks at the clock. */
async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  let now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now++);
  let turns = 0;
  let next = setImmediate(function count() {
    turns++;
    next = setImmediate(count);
  });
  await work();
  clearImmediate(next);
  return turns;
}

const asked = (to: string) => new URLSearchParams({ from: '127.0.0.1:40000', to });

test('of Maglev it is the backend of the table, which is made in slices', async () => {
  let said: unknown;
  const turns = await turnsOf(async () => {
    said = await explained(PLAN, [], SERVING, asked('10.96.0.10:80/tcp'));
  });
  const packet = { source: '127.0.0.1', sourcePort: 40_000, destination: '10.96.0.10' };
  const expected = answer(PLAN, { ...packet, destinationPort: 80, protocol: 'TCP' }, SERVING);
  expect(expected.chosen).toMatch(/^10\.1\.1\.\d+:8080$/);
  expect(said).toEqual(expected);
  expect(turns).toBeGreaterThanOrEqual(3);
});

test('of another algorithm it is given at once', async () => {
  const ask = async () =>
    expect(await explained(PLAN, [], SERVING, asked('10.96.0.11:80/tcp'))).toMatchObject({
      verdict: 'forward',
    });
  expect(await turnsOf(ask)).toBe(0);
});

test.each([
  ['no plan', undefined, '10.96.0.10:80/tcp', 'the agent has no plan yet'],
  ['no packet', PLAN, 'nowhere', expect.stringContaining('nowhere')],
])('with %s it says so', async (_, plan, to, error) => {
  expect(await explained(plan, [], SERVING, asked(to))).toEqual({ error });
});
