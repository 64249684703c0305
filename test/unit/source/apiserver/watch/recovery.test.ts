// SPDX-License-Identifier: Apache-2.0
// After an outage: how soon all kinds are watched again, and the load on a server that is down, one that has just
// started, and one to which all nodes return.
import { describe, expect, test } from 'vitest';
import { ownNode, SERVICES, SLICES } from '../../../../../src/source/apiserver/kinds.ts';
import { LIMITS } from '../../../../../src/source/apiserver/limits.ts';
import { until } from '../../../../support/until.ts';
import { errorLine, type FakeApiServer, type Fault, status } from '../support/fake-api-server.ts';
import type { FakeClock } from '../support/fake-clock.ts';
import { follow, followCluster, openServer, PATH, serverWith } from '../support/harness.ts';
import { node, service, slice } from '../support/objects.ts';
import { idle } from '../support/traffic.ts';

const NODE = ownNode('n1');
const PROBE = '/api/v1/namespaces/default/services';
const COUNT = '/api/v1/nodes';
const KINDS = [SERVICES.path, SLICES.path, NODE.path];
const OUTAGE_MS = 120_000;
const STEP_MS = 100;

/** Closes every connection, as a port without a listener and a proxy without a server do. */
const DOWN: Fault = (_seen, _response, socket) => {
  socket.destroy();
  return true;
};

async function followed() {
  const server = await openServer();
  for (const path of [SERVICES.path, PROBE]) server.put(path, service('kubernetes'));
  server.put(SLICES.path, slice('kubernetes'));
  server.put(NODE.path, node('n1'));
  const followed = followCluster(server);
  const isWatching = (): boolean => server.watchers.size === KINDS.length && followed.isWatching();
  await until(isWatching, 'watches');
  return { server, ...followed, isWatching };
}

function breakDown(server: FakeApiServer): void {
  server.fault = DOWN;
  for (const path of KINDS) server.resetWatches(path);
  server.seen.length = 0;
}

/** Lets time pass in small steps, while sockets are real; returns what passed until it was so. */
async function passing(clock: FakeClock, mostMs: number, isSo = () => false): Promise<number> {
  let passedMs = 0;
  while (passedMs < mostMs && !isSo()) {
    clock.advance(STEP_MS);
    passedMs += STEP_MS;
    await idle();
  }
  return passedMs;
}

/** The same in steps that fit the timers: for long times. */
async function passingLong(clock: FakeClock, mostMs: number): Promise<void> {
  const endMs = clock.monotonicMs() + mostMs;
  while (clock.monotonicMs() < endMs) {
    const [nextMs = STEP_MS] = clock.delaysMs();
    clock.advance(Math.max(STEP_MS, Math.min(nextMs, endMs - clock.monotonicMs())));
    await idle();
  }
}

/** A server that has started anew: it remembers no history. */
function comeBack(server: FakeApiServer): void {
  server.put(SLICES.path, slice('news'));
  server.remove(SERVICES.path, 'kubernetes');
  server.put(SERVICES.path, service('kubernetes'));
  server.compacted = server.version;
  server.fault = undefined;
}

describe('a server that is back after two minutes, without history', () => {
  test.each([0.2, 0.5, 0.999])(
    'is followed by all kinds within 2 s (chance %d)',
    async (chance) => {
      const { server, clock, isWatching } = await followed();
      clock.chance = chance;
      breakDown(server);
      await passingLong(clock, OUTAGE_MS);
      comeBack(server);
      // A cluster of unknown size spreads over a second, once for the probe and once for the lists.
      expect(await passing(clock, 10_000, isWatching)).toBeLessThanOrEqual(2_100);
    },
  );

  test('is probed at the same pace all the time', async () => {
    const { server, clock } = await followed();
    breakDown(server);
    await passingLong(clock, OUTAGE_MS);
    const probes = server.kinds(PROBE).length;
    const others = server.seen.length - probes;
    expect(probes).toBeGreaterThan(OUTAGE_MS / LIMITS.probeMs);
    expect(probes).toBeLessThan((2 * OUTAGE_MS) / LIMITS.probeMs);
    expect(others).toBeLessThan((4 * KINDS.length * OUTAGE_MS) / LIMITS.backoff.maxMs);
  });
});

test('a 410 is not a failure: the list follows at once, within the jitter of all nodes', async () => {
  const server = await serverWith('a');
  const following = follow(server, { spreadMs: 3_000 });
  await following.watching();
  server.send(PATH, errorLine(410, 'too old resource version'));
  await until(() => following.reflector.counters.ends.expired === 1, 'the end');
  await idle();
  expect(following.clock.delaysMs()).toEqual([1_500]);
  following.clock.advance(1_500);
  await following.watching();
  expect(following.reflector.counters.watchListStarts).toBe(2);
  expect(following.reflector.status().problem).toBeUndefined();
});

test('a server that returns 410 to every list is retried with backoff', async () => {
  const server = await serverWith('a');
  const following = follow(server);
  await following.watching();
  server.fault = (_seen, response) => {
    status(response, 410, 'Expired');
    return true;
  };
  server.send(PATH, errorLine(410, 'expired'));
  const pauses = [await following.passPause()];
  for (let tries = 3; tries <= 5; tries += 1) {
    await until(() => following.reflector.counters.ends.expired === tries, 'the next');
    pauses.push(await following.passPause());
  }
  expect(pauses).toEqual([400, 800, 1_600, 3_200]);
});

/** Of one kind: its pauses begin anew when a probe is answered, which counts ever more rarely. */
function mostTries(outageMs: number, chance: number): number {
  const { firstMs, maxMs } = LIMITS.backoff;
  let tries = 0;
  let passedMs = 0;
  for (let resumes = 1; passedMs < outageMs; resumes += 1) {
    const windowMs = Math.min(maxMs, LIMITS.probeMs * 2 ** resumes);
    passedMs += windowMs;
    let waitedMs = 0;
    for (let failures = 0; waitedMs <= windowMs; failures += 1) {
      waitedMs += chance * Math.min(maxMs, firstMs * 2 ** failures);
      tries += 1;
    }
  }
  return tries;
}

test('a server that answers probes but breaks every watch is retried with backoff', async () => {
  const { server, clock } = await followed();
  breakDown(server);
  server.fault = (seen, response, socket) => seen.path !== PROBE && DOWN(seen, response, socket);
  await passingLong(clock, OUTAGE_MS);
  const watches = server.seen.length - server.kinds(PROBE).length;
  // With every probe that is answered it would be one a second.
  expect(watches).toBeLessThanOrEqual(KINDS.length * (1 + mostTries(OUTAGE_MS, clock.chance)));
});

test('Retry-After of one kind is respected even if the server answers others', async () => {
  const { server, clock } = await followed();
  breakDown(server);
  server.fault = (seen, response, socket) => {
    if (seen.path === SLICES.path) status(response, 429, 'busy', { 'retry-after': '20' });
    return seen.path === SLICES.path || DOWN(seen, response, socket);
  };
  await passing(clock, 20_000, () => server.kinds(SLICES.path).length > 0);
  const refused = server.fault;
  server.fault = (seen, response, socket) =>
    seen.path === SLICES.path && refused(seen, response, socket);
  await passing(clock, 5_000);
  expect(server.kinds(NODE.path).at(-1)).toBe('watch');
  expect(server.kinds(SLICES.path)).toHaveLength(1);
});

describe('the number of Nodes', () => {
  const answering =
    (metadata: object): Fault =>
    ({ path, query }, response) => {
      if (path !== COUNT || query.get('limit') !== '1') return false;
      response.end(JSON.stringify({ metadata, items: [{ metadata: { name: 'n1' } }] }));
      return true;
    };

  test.each([
    [{ remainingItemCount: 4_999, continue: 'x' }, 5_000],
    [{ remainingItemCount: 99_999, continue: 'x' }, LIMITS.spreadMaxMs],
    [{}, LIMITS.probeMs],
    [{ continue: 'x' }, LIMITS.unknownNodes * LIMITS.spreadMsPerNode],
  ])('%o: probes are at most %i ms apart', async (metadata, mostMs) => {
    const { server, clock } = await followed();
    server.fault = answering(metadata);
    clock.advance(LIMITS.nodeCountFirstMs * clock.chance);
    await until(() => server.kinds(COUNT).length > 1, 'the question');
    await idle();
    clock.chance = 0.999;
    breakDown(server);
    await passing(clock, mostMs + 2_000, () => server.kinds(PROBE).length > 0);
    // Two kinds that fail probe, too: what counts is the pause after the last.
    const longestMs = Math.max(...clock.delaysMs().filter((delayMs) => delayMs <= mostMs));
    expect(longestMs).toBeGreaterThan(mostMs * 0.9);
  });

  test('a server that does not say it changes nothing, and is asked again in an hour', async () => {
    const { server, clock, cluster } = await followed();
    server.fault = ({ path, query }, response) => {
      if (path !== COUNT || query.get('limit') !== '1') return false;
      status(response, 403, 'no');
      return true;
    };
    const asked = (): number =>
      server.seen.filter(({ query }) => query.get('limit') === '1').length;
    clock.advance(LIMITS.nodeCountFirstMs * clock.chance);
    await until(() => asked() === 1, 'the question');
    await idle();
    expect(clock.delaysMs().at(-1)).toBe(LIMITS.nodeCountMs);
    expect(cluster.problems()).toEqual([]);
  });
});
