// SPDX-License-Identifier: Apache-2.0
// Servers and networks that fail: state stays, retries back off, and watches resume on recovery.
import { describe, expect, test } from 'vitest';
import { LIMITS } from '../../../../../src/source/apiserver/limits.ts';
import { until } from '../../../../support/until.ts';
import { status } from '../support/fake-api-server.ts';
import { follow, openServer, PATH, serverWith } from '../support/harness.ts';
import { slice } from '../support/objects.ts';
import { idle } from '../support/traffic.ts';

describe('an invalid response', () => {
  test.each([
    [429, { 'retry-after': '9' }, 9_000],
    [503, { 'retry-after': '5' }, 5_000],
    [429, { 'retry-after': '3600' }, LIMITS.retryAfterMaxMs],
    [500, {}, 400],
    [500, { 'retry-after': 'nonsense' }, 400],
  ])('%i %o: retried after the right pause, and synced', async (code, headers, pauseMs) => {
    const server = await serverWith('a');
    let left = 1;
    server.fault = (_seen, response) => {
      if (left === 0) return false;
      left -= 1;
      status(response, code, 'busy', headers);
      return true;
    };
    const following = follow(server);
    expect(await following.passPause()).toBe(pauseMs);
    await following.waitFor('synced');
    expect(following.reflector.counters.ends.refused).toBe(1);
  });

  test('Retry-After as a date', async () => {
    const server = await serverWith('a');
    server.fault = (_seen, response) => {
      const date = new Date(Date.now() + 20_000).toUTCString();
      status(response, 429, 'busy', { 'retry-after': date });
      return true;
    };
    const pauseMs = await follow(server).passPause();
    expect(pauseMs).toBeGreaterThan(15_000);
    expect(pauseMs).toBeLessThanOrEqual(20_000);
  });

  test('a peer that accepts but never answers is abandoned after 30 s', async () => {
    const server = await serverWith('a');
    server.fault = () => true;
    const following = follow(server);
    await until(() => server.seen.length === 1, 'the request');
    following.clock.advance(LIMITS.headersTimeoutMs - 1);
    await idle();
    expect(following.reflector.counters.ends.silent).toBe(0);
    following.clock.advance(1);
    await until(() => following.reflector.counters.ends.silent === 1, 'the end');
    server.fault = undefined;
    await following.passPause();
    await following.waitFor('synced');
  });

  test('an error response whose body never ends is abandoned too', async () => {
    const server = await serverWith('a');
    server.fault = (_seen, response) => {
      response.writeHead(500);
      response.write('{"message":');
      return true;
    };
    const following = follow(server);
    await until(() => server.seen.length === 1, 'the request');
    await idle();
    following.clock.advance(LIMITS.headersTimeoutMs);
    await until(() => following.reflector.counters.ends.silent === 1, 'the end');
  });

  test('two failures in a row are a problem that says why; success clears it', async () => {
    const server = await serverWith('a');
    server.fault = (_seen, response) => {
      status(response, 500, 'etcd is sad');
      return true;
    };
    const following = follow(server);
    await following.passPause();
    await until(() => following.reflector.counters.ends.refused === 2, 'the second');
    await until(() => following.reflector.status().problem !== undefined, 'a problem');
    expect(following.reflector.status().problem).toBe('HTTP 500: etcd is sad');
    server.fault = undefined;
    await following.passPause();
    await following.waitFor('synced');
    await until(() => following.reflector.status().problem === undefined, 'its end');
  });
});

describe('a watch that breaks', () => {
  test('RST in mid-stream: resumes where it was', async () => {
    const server = await serverWith('a');
    const following = follow(server);
    await following.watching();
    server.resetWatches(PATH);
    await following.passPause();
    server.put(PATH, slice('b'));
    await following.waitFor('put default/b');
    expect(server.kinds()).toEqual(['watchlist', 'watch']);
    expect(following.reflector.counters.ends.broken).toBe(1);
  });

  test('cut within an object: the half is dropped, the next watch delivers the object', async () => {
    const server = await serverWith('a');
    const following = follow(server);
    await following.watching();
    server.send(PATH, '{"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"102"');
    server.endWatches(PATH);
    await following.passPause();
    server.put(PATH, slice('b'));
    await following.waitFor('put default/b');
    expect(server.seen[1]?.query.get('resourceVersion')).toBe('101');
    expect(following.reflector.counters.ends.broken).toBe(1);
    expect(following.events).toEqual(['put default/a', 'synced', 'put default/b']);
  });

  test('split within a character: the text stays intact', async () => {
    const server = await serverWith('a');
    const following = follow(server);
    await following.watching();
    const [watcher] = server.watchers;
    const object = {
      ...slice('b'),
      metadata: { name: 'b', namespace: 'd', resourceVersion: '999', labels: { x: 'é€' } },
    };
    const bytes = Buffer.from(`${JSON.stringify({ type: 'ADDED', object })}\n`);
    const at = bytes.indexOf(0xe2) + 1;
    watcher?.response.write(bytes.subarray(0, at));
    await idle();
    watcher?.response.write(bytes.subarray(at));
    await following.waitFor('put d/b');
    expect(following.objects.get('d/b')).toMatchObject({ metadata: { labels: { x: 'é€' } } });
  });

  test('the backoff grows while nothing works, and is reset by the first event', async () => {
    const server = await serverWith('a');
    const following = follow(server);
    await following.watching();
    const refuse = (_: unknown, response: Parameters<typeof status>[0]) => {
      status(response, 500, 'no');
      return true;
    };
    server.fault = refuse;
    server.resetWatches(PATH);
    const pauses = [await following.passPause()];
    for (let failures = 2; failures <= 4; failures += 1) {
      await until(() => following.reflector.counters.ends.refused === failures - 1, 'a failure');
      pauses.push(await following.passPause());
    }
    // The first is of the broken connection: a server that answers starts from the least again.
    expect(pauses).toEqual([400, 400, 800, 1_600]);
    server.fault = undefined;
    await until(
      () => server.watchers.size === 1 || following.reflector.status().state === 'waiting',
      'x',
    );
    if (server.watchers.size === 0) await following.passPause();
    await following.watching();
    server.put(PATH, slice('b'));
    await following.waitFor('put default/b');
    server.resetWatches(PATH);
    expect(await following.passPause()).toBe(400);
  });

  test('two healthy minutes reset it too', async () => {
    const server = await serverWith('a');
    const following = follow(server);
    await following.watching();
    for (const pauseMs of [400, 800]) {
      server.resetWatches(PATH);
      expect(await following.passPause()).toBe(pauseMs);
      await following.watching();
    }
    following.clock.advance(LIMITS.healthyMs);
    await until(() => following.reflector.counters.ends.silent === 1, 'a silent end');
    await following.watching();
    server.resetWatches(PATH);
    expect(await following.passPause()).toBe(400);
  });
});

describe('a stream that fails switches to the next server', () => {
  async function twoServers() {
    const [first, second] = [await serverWith('a'), await serverWith('a')];
    const servers = [first, second].map(({ url }) => ({ url, tlsName: undefined }));
    const following = follow(first, { servers });
    await following.watching();
    const rotated = () => until(() => following.servers.rotations === 1, 'the rotation');
    return { first, second, following, rotated };
  }

  test('by RST', async () => {
    const { first, second, following, rotated } = await twoServers();
    first.resetWatches(PATH);
    await rotated();
    await following.passPause();
    await until(() => second.watchers.size === 1, 'the other server');
  });

  test('by silence', async () => {
    const { second, following, rotated } = await twoServers();
    following.clock.advance(LIMITS.watchSilenceMs);
    await rotated();
    await until(() => second.watchers.size === 1, 'the other server');
  });

  test('by an end right after its beginning, but not by one after a long life', async () => {
    const { first, following, rotated } = await twoServers();
    following.clock.advance(LIMITS.shortLifeMs);
    first.endWatches(PATH);
    await following.watching();
    expect(following.servers.rotations).toBe(0);
    await until(() => first.watchers.size === 1, 'the second watch');
    await idle();
    first.endWatches(PATH);
    await rotated();
  });
});

test('one failure causes a reconnect but no problem', async () => {
  const server = await serverWith('a');
  const following = follow(server);
  await following.watching();
  server.resetWatches(PATH);
  await until(() => following.reflector.status().state === 'waiting', 'a pause');
  expect(following.reflector.status().problem).toBeUndefined();
});

test('a proxy that closes every connection at once gets no request storm', async () => {
  const server = await openServer();
  server.fault = (_seen, _response, socket) => {
    socket.destroy();
    return true;
  };
  const following = follow(server);
  following.clock.chance = 0.5;
  const startMs = following.clock.monotonicMs();
  while (following.clock.monotonicMs() - startMs < 120_000) await following.passPause();
  expect(server.connections).toBeLessThan(20);
  expect(server.connections).toBeGreaterThan(5);
});

test('a proxy that opens every watch and closes it at once gets no request storm and no list', async () => {
  const server = await serverWith('a');
  const following = follow(server);
  await following.watching();
  server.fault = (_seen, response) => {
    response.writeHead(200);
    response.end();
    return true;
  };
  const startMs = following.clock.monotonicMs();
  server.resetWatches(PATH);
  while (following.clock.monotonicMs() - startMs < 120_000) await following.passPause();
  expect(server.seen.length).toBeLessThan(20);
  expect(new Set(server.kinds().slice(1))).toEqual(new Set(['watch']));
  expect(following.objects.size).toBe(1);
});

test('an outage removes nothing, and the watch resumes when the server is back', async () => {
  const server = await serverWith('a', 'b');
  const following = follow(server);
  await following.watching();
  server.fault = (_seen, _response, socket) => {
    socket.destroy();
    return true;
  };
  server.resetWatches(PATH);
  for (let tries = 1; tries <= 5; tries += 1) {
    await until(() => following.reflector.counters.ends.broken === tries, 'a failure');
    await following.passPause();
  }
  await until(() => following.reflector.counters.ends.broken === 6, 'the last failure');
  expect(following.events).toEqual(['put default/a', 'put default/b', 'synced']);
  expect(following.reflector.status().objects).toBe(2);
  server.fault = undefined;
  server.remove(PATH, 'a');
  await following.passPause();
  await following.waitFor('remove default/a');
});

test('sockets do not accumulate over many watches', async () => {
  const server = await serverWith('a');
  const following = follow(server);
  for (let round = 0; round < 12; round += 1) {
    await following.watching();
    following.clock.advance(LIMITS.shortLifeMs);
    const { watchStarts } = following.reflector.counters;
    server.endWatches(PATH);
    await until(() => following.reflector.counters.watchStarts > watchStarts, 'the next');
  }
  expect(server.sockets.size).toBeLessThanOrEqual(2);
});
