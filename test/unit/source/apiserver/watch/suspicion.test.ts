// SPDX-License-Identifier: Apache-2.0
// A server that has lost its objects: nothing is removed before a second list confirms it.
import { describe, expect, test } from 'vitest';
import { SERVICES, SLICES } from '../../../../../src/source/apiserver/kinds.ts';
import { LIMITS } from '../../../../../src/source/apiserver/limits.ts';
import { Store } from '../../../../../src/source/apiserver/watch/store.ts';
import { until } from '../../../../support/until.ts';
import { bookmarkLine, errorLine, type FakeApiServer, status } from '../support/fake-api-server.ts';
import { type Following, follow, openServer, PATH, serverWith } from '../support/harness.ts';
import { slice } from '../support/objects.ts';
import { idle } from '../support/traffic.ts';

const NAMES = ['a', 'b', 'c', 'd', 'e'];

async function watched(names: readonly string[] = NAMES) {
  const server = await serverWith(...names);
  const following = follow(server);
  await following.watching();
  following.events.length = 0;
  return { server, following };
}

/** Makes the reflector list again at once; resolves when it has judged the list. */
async function listAgain(server: FakeApiServer, following: Following): Promise<void> {
  const { counters } = following.reflector;
  const before = counters.watchListStarts;
  following.clock.advance(LIMITS.shortLifeMs);
  server.send(PATH, errorLine(410, 'expired'));
  await until(() => counters.watchListStarts > before, 'a new list');
  await following.watching();
}

describe('an empty list after objects', () => {
  test('is reported, and removes nothing until a quorum list confirms it', async () => {
    const { server, following } = await watched();
    server.forgetAll();
    await listAgain(server, following);
    expect(following.suspicions).toEqual([
      { reason: 'list is empty', stored: 5, listed: 0, held: 5 },
    ]);
    expect(following.events).toEqual([]);
    expect(following.reflector.status()).toMatchObject({ objects: 5, heldRemovals: 5 });
    following.clock.advance(LIMITS.confirmDelayMs - 1);
    await idle();
    expect(following.events).toEqual([]);
    following.clock.advance(1);
    await following.waitFor('remove default/e');
    expect(following.events).toEqual(NAMES.map((name) => `remove default/${name}`));
    const confirmation = server.seen.find(({ query }) => query.get('limit') !== null);
    expect(confirmation?.query.get('resourceVersion')).toBeNull();
    expect(following.reflector.status().heldRemovals).toBe(0);
    expect(following.suspicions).toHaveLength(1);
  });

  test('objects that are back before the confirmation never went', async () => {
    const { server, following } = await watched();
    server.forgetAll();
    await listAgain(server, following);
    for (const name of ['a', 'b']) server.put(PATH, slice(name));
    await following.waitFor('put default/b');
    expect(following.reflector.status().heldRemovals).toBe(3);
    for (const name of ['c', 'd']) server.put(PATH, slice(name));
    await following.waitFor('put default/d');
    following.clock.advance(LIMITS.confirmDelayMs);
    await following.waitFor('remove default/e');
    expect(following.events.filter((event) => event.startsWith('remove'))).toEqual([
      'remove default/e',
    ]);
  });

  test('a confirmation that fails confirms nothing', async () => {
    const { server, following } = await watched();
    server.forgetAll();
    await listAgain(server, following);
    server.fault = (_seen, response) => {
      status(response, 500, 'no');
      return true;
    };
    following.clock.advance(LIMITS.confirmDelayMs);
    await following.passPause();
    await until(() => following.reflector.counters.ends.refused === 2, 'the second failure');
    expect(following.events).toEqual([]);
    server.fault = undefined;
    await following.passPause();
    await following.watching();
    expect(following.events).toEqual([]);
    following.clock.advance(LIMITS.confirmDelayMs);
    await following.waitFor('remove default/e');
  });

  test('while lists fail, the watch goes on, and the confirmation is retried', async () => {
    const { server, following } = await watched();
    server.forgetAll();
    await listAgain(server, following);
    server.fault = ({ query }, response) => {
      if (query.get('watch') !== null) return false;
      status(response, 504, 'etcd is slow');
      return true;
    };
    server.watchList = 'refused';
    following.clock.advance(LIMITS.confirmDelayMs);
    await following.passPause();
    await following.watching();
    server.put(PATH, slice('news'));
    await following.waitFor('put default/news');
    expect(following.reflector.status().heldRemovals).toBe(5);
    server.fault = undefined;
    following.clock.advance(LIMITS.confirmDelayMs);
    await following.waitFor('remove default/e');
  });

  test('removals held by a stream that breaks at once are asked about all the same', async () => {
    const { server, following } = await watched();
    server.forgetAll();
    server.fault = ({ query }, response) => {
      if (query.get('sendInitialEvents') === null) return false;
      server.fault = undefined;
      response.end(bookmarkLine(server.version, true) + errorLine(500, 'leaving'));
      return true;
    };
    server.send(PATH, errorLine(410, 'expired'));
    await until(() => following.reflector.status().heldRemovals === 5, 'held removals');
    await following.passPause();
    await following.watching();
    following.clock.advance(LIMITS.confirmDelayMs);
    await following.waitFor('remove default/e');
  });

  test('a plain list before the delay is over confirms nothing', async () => {
    const { server, following } = await watched();
    server.forgetAll();
    await listAgain(server, following);
    server.put(PATH, slice('new'));
    await following.waitFor('put default/new');
    await listAgain(server, following);
    expect(following.events).toEqual(['put default/new']);
    expect(following.reflector.status().heldRemovals).toBe(5);
  });
});

test('another cluster at the same address: its objects come, ours stay until it is asked twice', async () => {
  const { server, following } = await watched();
  server.resetWatches(PATH);
  server.forgetAll();
  server.uidPrefix = 'other';
  server.put(PATH, slice('a'));
  server.put(PATH, slice('x'));
  server.compacted = server.version;
  await following.passPause();
  await following.waitFor('put default/x');
  expect(following.suspicions[0]).toMatchObject({ reason: 'everything vanished at once', held: 4 });
  expect(following.events).toEqual(['put default/a', 'put default/x']);
  await following.watching();
  following.clock.advance(LIMITS.confirmDelayMs);
  await following.waitFor('remove default/e');
});

test('a restored etcd: versions go backwards, what is missing is held, the rest is told anew', async () => {
  const { server, following } = await watched();
  server.remove(PATH, 'e');
  await following.waitFor('remove default/e');
  server.resetWatches(PATH);
  server.forgetAll(50);
  for (const name of ['a', 'b', 'c']) server.put(PATH, slice(name));
  await following.passPause();
  await following.watching();
  await listAgain(server, following);
  expect(following.suspicions[0]).toMatchObject({
    reason: 'resourceVersion went backwards',
    held: 1,
  });
  expect(following.events.slice(1)).toEqual(['put default/a', 'put default/b', 'put default/c']);
  following.clock.advance(LIMITS.confirmDelayMs);
  await following.waitFor('remove default/d');
});

test('after a restore an equal version may stand for another content', () => {
  const store = new Store(SLICES);
  const observed = {
    ref: { kind: 'EndpointSlice', namespace: 'd', name: 'a' },
    version: '40',
    uid: 'u',
    object: {},
  } as const;
  const objects = new Map([['d/a', observed]]);
  const list = (version: string) => store.replace({ objects, version, isConfirmation: false });
  expect(list('100').changes).toHaveLength(1);
  expect(list('110').changes).toHaveLength(0);
  expect(list('50').changes).toHaveLength(1);
});

test('many removals that leave a plausible rest are accepted at once', async () => {
  const { server, following } = await watched();
  server.resetWatches(PATH);
  for (const name of ['a', 'b', 'c', 'd']) server.remove(PATH, name);
  server.compacted = server.version;
  await following.passPause();
  await following.waitFor('remove default/d');
  expect(following.suspicions).toEqual([]);
});

test('DELETED events are never held: they are explicit', async () => {
  const { server, following } = await watched();
  for (const name of NAMES) server.remove(PATH, name);
  await following.waitFor('remove default/e');
  expect(following.events).toHaveLength(5);
});

test('an empty first list does not complete the initial sync until it is confirmed', async () => {
  const server = await openServer();
  const following = follow(server, { spec: SERVICES });
  await until(() => following.suspicions.length === 1, 'the suspicion');
  expect(following.suspicions).toEqual([
    { reason: 'list is empty', stored: 0, listed: 0, held: 0 },
  ]);
  await idle();
  expect(following.events).toEqual([]);
  following.clock.advance(LIMITS.confirmDelayMs);
  await following.waitFor('synced');
  expect(following.suspicions).toHaveLength(1);
});
