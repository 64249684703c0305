// SPDX-License-Identifier: Apache-2.0
// start() and stop(): one loop at most, and nothing left behind.
import { expect, test } from 'vitest';
import { until } from '../../../../support/until.ts';
import { follow, openServer, PATH, serverWith } from '../support/harness.ts';
import { slice } from '../support/objects.ts';
import { idle } from '../support/traffic.ts';

test('start() many times is one watch', async () => {
  const server = await serverWith('a');
  const following = follow(server);
  following.reflector.start();
  following.reflector.start();
  await following.watching();
  following.reflector.start();
  await idle();
  expect(server.kinds()).toEqual(['watchlist']);
});

test('stop() right after start() leaves no connection', async () => {
  const server = await serverWith('a');
  const following = follow(server);
  await following.reflector.stop();
  await idle();
  expect(server.watchers.size).toBe(0);
  expect(following.reflector.status().state).toBe('stopped');
  expect(following.events).toEqual([]);
});

test('stop() ends a stream, at once and many times', async () => {
  const server = await serverWith('a');
  const following = follow(server);
  await following.watching();
  await Promise.all([following.reflector.stop(), following.reflector.stop()]);
  await following.reflector.stop();
  await until(() => server.watchers.size === 0, 'the end of the stream');
  server.put(PATH, slice('b'));
  await idle();
  expect(following.events).toEqual(['put default/a', 'synced']);
  expect(following.clock.delaysMs()).toEqual([]);
});

test('stop() ends a wait for headers, and a pause', async () => {
  const server = await serverWith('a');
  let isLeft = false;
  server.fault = (_seen, _response, socket) => {
    socket.on('close', () => {
      isLeft = true;
    });
    return true;
  };
  const following = follow(server);
  await until(() => server.seen.length === 1, 'the request');
  await following.reflector.stop();
  await until(() => isLeft, 'the end of the connection');
  server.fault = (_seen, _response, socket) => {
    socket.destroy();
    return true;
  };
  following.reflector.start();
  await until(() => following.reflector.status().state === 'waiting', 'a pause');
  await following.reflector.stop();
  expect(following.clock.delaysMs()).toEqual([]);
});

test('stop() in the middle of a list leaves the list', async () => {
  const server = await openServer();
  server.watchList = 'refused';
  server.fault = ({ query }, response) => {
    if (query.get('limit') === null) return false;
    response.write('{"kind":"List","metadata":{"resourceVersion":"5"},"items":[');
    return true;
  };
  const following = follow(server);
  await until(() => server.seen.length === 2, 'the list');
  await idle();
  await following.reflector.stop();
  expect(following.clock.delaysMs()).toEqual([]);
  expect(following.reflector.counters.ends.stopped).toBe(1);
});

test('start() after stop() goes on without losing anything in between', async () => {
  const server = await serverWith('a');
  const following = follow(server);
  await following.watching();
  await following.reflector.stop();
  server.remove(PATH, 'a');
  server.put(PATH, slice('b'));
  following.reflector.start();
  await following.waitFor('put default/b');
  expect(following.events).toEqual([
    'put default/a',
    'synced',
    'remove default/a',
    'put default/b',
  ]);
});

test('start() while stop() is under way is one watch', async () => {
  const server = await serverWith('a');
  const following = follow(server);
  await following.watching();
  const stopped = following.reflector.stop();
  following.reflector.start();
  await stopped;
  await until(() => server.kinds().length === 2, 'the second watch');
  await idle();
  expect(server.watchers.size).toBe(1);
});
