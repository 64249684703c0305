// SPDX-License-Identifier: Apache-2.0
// Two nodes with XDP in front of each other: what one sends the other one receives, and what they disagree about ends.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { until } from '../../../support/until.ts';
import { ADDRESSES, PORTS, startTwoSides, type TwoSides } from './support/two-sides.ts';

let sides: TwoSides;
let before: readonly [number, number];

beforeAll(async () => {
  sides = await startTwoSides();
});
beforeEach(async () => {
  before = await sides.sent();
});
afterAll(async () => {
  expect(await sides?.lost()).toBe(0);
  await sides?.stop();
});

const PAIRS = [
  ['IPv4', 'TCP'],
  ['IPv4', 'UDP'],
  ['IPv6', 'TCP'],
  ['IPv6', 'UDP'],
] as const;
type Pair = (typeof PAIRS)[number];

const at = (
  node: 'n1' | 'n2',
  port: keyof typeof PORTS,
  [family, protocol]: Pair = ['IPv4', 'TCP'],
) => ({ address: ADDRESSES[node][family], port: PORTS[port], protocol });

/** Since the test began. */
async function sent(): Promise<readonly [number, number]> {
  const [one, other] = await sides.sent();
  return [one - before[0], other - before[1]];
}
const untilSent = (one: number, other: number): Promise<unknown> =>
  until(async () => {
    const [by1, by2] = await sent();
    return by1 >= one && by2 >= other;
  }, `XDP to have sent ${one} and ${other} frames`);

const CONNECTIONS = 50;

test('new flows by both at once: each forwards to the pod behind the other one', async () => {
  const bursts = PAIRS.flatMap((pair) => [
    [at('n1', 'b', pair), 'b'] as const,
    [at('n2', 'a', pair), 'a'] as const,
  ]);
  const tallies = await Promise.all(
    bursts.map(([target]) => sides.outside.burst(target, { connections: CONNECTIONS })),
  );
  tallies.forEach(({ hits, failures }, index) => {
    expect({ hits, failures }).toEqual({
      hits: { [bursts[index]![1]]: CONNECTIONS },
      failures: {},
    });
  });
  // A request and an answer of each at least, but for those that renew a neighbour.
  const least = PAIRS.length * CONNECTIONS * 2 * 0.9;
  await untilSent(least, least);
});

test('under load: nothing fails', async () => {
  const targets = PAIRS.flatMap((pair) => [at('n1', 'b', pair), at('n2', 'a', pair)]);
  const loads = await Promise.all(
    targets.map((target) => sides.outside.startLoad(target, { concurrency: 2 })),
  );
  await until(
    async () => {
      const reports = await Promise.all(loads.map((load) => load.read()));
      return reports.every(({ connections }) => connections > 100);
    },
    { what: 'connections', timeoutMs: 60_000 },
  );
  for (const load of loads) expect((await load.stop()).failures).toEqual([]);
});

describe.each(PAIRS)('%s %s', (...pair) => {
  test('the endpoint of one is a NodePort of the other: there and back through both', async () => {
    const { hits, failures } = await sides.outside.burst(at('n1', 'chain', pair), {
      connections: CONNECTIONS,
    });
    expect({ hits, failures }).toEqual({ hits: { a: CONNECTIONS }, failures: {} });
    await untilSent(2 * CONNECTIONS * 0.8, 2 * CONNECTIONS * 0.8);
  });

  test('a pod that is its own backend, by the other node', async () => {
    const [family] = pair;
    const answer = await sides.inside.once(at('n1', 'b', pair));
    expect(answer).toMatchObject({ backend: 'b', clientSeen: { address: ADDRESSES.n1[family] } });
    await untilSent(2, 0);
  });
});

test.each(['IPv4', 'IPv6'] as const)(
  '%s: endpoints that are NodePorts of each other: every round costs the packet a hop',
  async (family) => {
    // What each knows of the other one's address, the stack has to learn first.
    await sides.outside.once(at('n1', 'chain', [family, 'UDP']));
    before = await sides.sent();
    const DATAGRAMS = 8;
    for (let count = 0; count < DATAGRAMS; count += 1) {
      const answer = await sides.outside.once(at('n1', 'loop', [family, 'UDP']), 300);
      expect(answer.kind).toBe('failed');
    }
    // A hop for each that sends it, of 64.
    await until(async () => {
      const [one, other] = await sent();
      return one + other > DATAGRAMS * 56;
    }, 'rounds');
    const [one, other] = await sent();
    expect(one + other).toBeLessThan(DATAGRAMS * 64);
    expect(await sent()).toEqual([one, other]);
    // And the two go on.
    expect(await sides.outside.once(at('n1', 'b'))).toMatchObject({ backend: 'b' });
  },
);
