// SPDX-License-Identifier: Apache-2.0
// Another cluster, or another store, at the old address: a resumed watch would deliver nothing.
import { expect, test } from 'vitest';
import type { ClusterSource } from '../../../../../src/source/apiserver/cluster.ts';
import { ownNode, SERVICES, SLICES } from '../../../../../src/source/apiserver/kinds.ts';
import { LIMITS } from '../../../../../src/source/apiserver/limits.ts';
import { until } from '../../../../support/until.ts';
import { type FakeApiServer, status } from '../support/fake-api-server.ts';
import type { FakeClock } from '../support/fake-clock.ts';
import { followCluster, openServer } from '../support/harness.ts';
import { node, service, slice } from '../support/objects.ts';
import { idle } from '../support/traffic.ts';

const NODE = ownNode('n1');
const ASKED = '/api/v1/namespaces/default/services';
const KINDS = [SERVICES.path, SLICES.path, NODE.path];

/** As an API server makes it by itself; `names` are Services, each with a slice. */
function fill(server: FakeApiServer, names: readonly string[]): void {
  server.put(SLICES.path, slice('kubernetes'));
  for (const path of [SERVICES.path, ASKED]) server.put(path, service('kubernetes'));
  for (const name of names) {
    server.put(SERVICES.path, service(name));
    server.put(SLICES.path, slice(`${name}-1`));
  }
}

async function followed() {
  const server = await openServer();
  fill(server, ['web']);
  server.put(NODE.path, node('n1'));
  const followed = followCluster(server);
  await followed.watching();
  server.seen.length = 0;
  followed.events.length = 0;
  return { server, ...followed };
}

const breakAll = (server: FakeApiServer): void => {
  for (const path of KINDS) server.resetWatches(path);
};

/** Lets pauses between tries pass until it is so. */
async function passing(clock: FakeClock, isSo: () => boolean): Promise<void> {
  for (let round = 0; round < 60 && !isSo(); round += 1) {
    clock.advance(400);
    await idle();
  }
  expect(isSo()).toBe(true);
}

const listed = (cluster: ClusterSource): boolean =>
  cluster.status().watches.every(({ counters }) => counters.watchListStarts === 2);
const questions = (server: FakeApiServer): number => server.kinds(ASKED).length;

test('a store whose revisions start over is detected, and followed after the hold', async () => {
  const { server, clock, cluster, events, watching } = await followed();
  breakAll(server);
  server.forgetAll(20);
  server.uidPrefix = 'other';
  fill(server, []);
  await passing(clock, () => listed(cluster));
  await watching();
  expect(events).toContain('suspicious Service: resourceVersion went backwards');
  expect(events.filter((event) => event.startsWith('remove'))).toEqual([]);
  clock.advance(LIMITS.confirmDelayMs);
  await until(() => events.includes('remove Service web'), 'the end of the hold');
  await until(() => events.includes('remove EndpointSlice web-1'), 'the end of the hold');
});

test('a restored backup keeps the uid, but is detected by its version', async () => {
  const { server, clock, cluster, events, watching } = await followed();
  breakAll(server);
  server.forgetAll(20);
  fill(server, ['web']);
  server.put(NODE.path, node('n1'));
  await passing(clock, () => listed(cluster));
  await watching();
  server.put(SERVICES.path, service('news'));
  await until(() => events.includes('put Service news'), 'what happens now');
});

test('a store with higher revisions is detected by its uid; its removals are held', async () => {
  const { server, clock, cluster, events, watching } = await followed();
  breakAll(server);
  server.forgetAll();
  server.uidPrefix = 'other';
  fill(server, ['x']);
  await passing(clock, () => listed(cluster));
  await watching();
  expect(events).toContain('suspicious Service: another cluster answers');
  expect(events).toContain('suspicious EndpointSlice: another cluster answers');
  expect(events).toContain('put Service x');
  expect(events.filter((event) => event.startsWith('remove'))).toEqual([]);
  expect(questions(server)).toBe(1);
  clock.advance(LIMITS.confirmDelayMs);
  await until(() => events.includes('remove Service web'), 'the end of the hold');
});

test('the same cluster is asked once by all kinds, and nothing is listed again', async () => {
  const { server, clock, events, watching } = await followed();
  breakAll(server);
  await passing(clock, () => server.watchers.size === KINDS.length);
  await watching();
  expect(questions(server)).toBe(1);
  const [{ query } = { query: new URLSearchParams() }] = server.seen;
  expect([...query]).toEqual([['fieldSelector', 'metadata.name=kubernetes']]);
  for (const path of KINDS) expect(server.kinds(path)).toEqual(['watch']);
  expect(events).toEqual([]);
});

test('events of a running watch before the response do not make the store look older', async () => {
  const { server, clock, events, watching } = await followed();
  let answer: () => void = () => undefined;
  server.fault = ({ path }, response) => {
    if (path !== ASKED) return false;
    const metadata = { resourceVersion: String(server.version) };
    const items = [{ metadata: { name: 'kubernetes', uid: 'uid-default-kubernetes' } }];
    answer = () => response.end(JSON.stringify({ metadata, items }));
    return true;
  };
  server.resetWatches(SERVICES.path);
  await passing(clock, () => questions(server) === 1);
  server.put(SLICES.path, slice('news'));
  await until(() => events.includes('put EndpointSlice news'), 'the news');
  answer();
  await watching();
  await until(() => server.watchers.size === KINDS.length, 'all watches');
  expect(server.kinds()).toEqual(['list', 'watch']);
});

test('a clean end of a watch is not an outage', async () => {
  const { server, clock, watching } = await followed();
  clock.advance(LIMITS.shortLifeMs);
  for (const path of KINDS) server.endWatches(path);
  await until(() => server.seen.length === KINDS.length, 'new watches');
  await watching();
  expect(questions(server)).toBe(0);
});

test('while the identity check is forbidden, watches continue, and it is retried', async () => {
  const { server, clock, cluster, events, watching } = await followed();
  breakAll(server);
  server.forgetAll();
  server.uidPrefix = 'other';
  fill(server, []);
  server.fault = ({ path }, response) => {
    if (path !== ASKED) return false;
    status(response, 403, 'roles are still being made');
    return true;
  };
  await passing(clock, () => server.watchers.size === KINDS.length);
  await watching();
  server.fault = undefined;
  await passing(clock, () => listed(cluster));
  expect(events).toContain('suspicious Service: another cluster answers');
});

test('an identity check that is always forbidden is given up', async () => {
  const { server, clock, watching } = await followed();
  server.fault = ({ path }, response) => {
    if (path !== ASKED) return false;
    status(response, 403, 'no');
    return true;
  };
  breakAll(server);
  await passing(clock, () => server.watchers.size === KINDS.length);
  await watching();
  for (let tries = 1; tries <= LIMITS.identityTries; tries += 1) {
    await until(() => questions(server) >= tries, `question ${tries}`);
    await idle();
    for (let passedMs = 0; passedMs < 40_000 && questions(server) === tries; passedMs += 2_000) {
      for (const path of KINDS) server.bookmark(path);
      clock.advance(2_000);
      await idle();
    }
  }
  expect(questions(server)).toBe(LIMITS.identityTries);
});

test('Retry-After of the identity check is respected, even if watches end meanwhile', async () => {
  const { server, clock, watching } = await followed();
  server.fault = ({ path }, response) => {
    if (path !== ASKED) return false;
    status(response, 429, 'busy', { 'retry-after': '9' });
    return true;
  };
  breakAll(server);
  await passing(clock, () => server.watchers.size === KINDS.length);
  await watching();
  expect(questions(server)).toBe(1);
  server.resetWatches(NODE.path);
  await passing(clock, () => server.watchers.size < KINDS.length);
  await passing(clock, () => server.watchers.size === KINDS.length);
  expect(questions(server)).toBe(1);
  server.fault = undefined;
  await passing(clock, () => questions(server) === 2);
});

test('an identity check without an answer delays watches only briefly', async () => {
  const { server, clock, cluster, watching } = await followed();
  server.fault = ({ path }) => path === ASKED;
  breakAll(server);
  await passing(clock, () => questions(server) === 1);
  expect(server.watchers.size).toBe(0);
  clock.advance(LIMITS.identityTimeoutMs);
  await passing(clock, () => server.watchers.size === KINDS.length);
  await watching();
  await cluster.close();
  await idle();
  expect(clock.delaysMs()).toEqual([]);
});

test('Service kubernetes recreated in the same cluster costs a list and removes nothing', async () => {
  const { server, cluster, events, watching } = await followed();
  server.remove(SERVICES.path, 'kubernetes');
  server.uidPrefix = 'anew';
  server.put(SERVICES.path, service('kubernetes'));
  await until(() => listed(cluster), 'lists');
  await watching();
  expect(events.filter((event) => /^suspicious|web/.test(event))).toEqual([]);
});

test('events of a held object are applied, whatever version it had in the old store', async () => {
  const { server, clock, cluster, events, watching } = await followed();
  breakAll(server);
  server.forgetAll(20);
  fill(server, []);
  await passing(clock, () => listed(cluster));
  await watching();
  server.put(SERVICES.path, service('web', 81));
  await until(() => events.includes('put Service web'), 'the Service made again');
});
