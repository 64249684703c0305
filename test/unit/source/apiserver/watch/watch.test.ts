// SPDX-License-Identifier: Apache-2.0
// A running watch: what it asks for, how it goes on, and when only a new list will do.
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { LIMITS } from '../../../../../src/source/apiserver/limits.ts';
import { until } from '../../../../support/until.ts';
import { errorLine, eventLine, status } from '../support/fake-api-server.ts';
import { type Following, follow, PATH, serverWith } from '../support/harness.ts';
import { slice } from '../support/objects.ts';
import { idle } from '../support/traffic.ts';

/** Lives long enough that its end is no failure. */
const LONG_MS = LIMITS.shortLifeMs;

async function watched(...names: string[]) {
  const server = await serverWith(...names);
  const following = follow(server);
  await following.watching();
  following.events.length = 0;
  return { server, following };
}

const reconnected = (following: Following, starts: number): Promise<true> =>
  until(() => following.reflector.counters.watchStarts === starts, `watch ${starts}`);

describe('reconnecting', () => {
  test('goes on from the last event, without a list', async () => {
    const { server, following } = await watched('a');
    server.put(PATH, slice('b'));
    await following.waitFor('put default/b');
    following.clock.advance(LONG_MS);
    server.endWatches(PATH);
    server.put(PATH, slice('c'));
    await following.waitFor('put default/c');
    expect(server.kinds()).toEqual(['watchlist', 'watch']);
    expect(server.seen[1]?.query.get('resourceVersion')).toBe('102');
    expect(server.seen[1]?.query.get('allowWatchBookmarks')).toBe('true');
    expect(following.events).toEqual(['put default/b', 'put default/c']);
  });

  test('goes on from the last bookmark', async () => {
    const { server, following } = await watched('a');
    server.version = 700;
    server.bookmark(PATH);
    await until(() => following.reflector.status().resourceVersion === '700', 'the bookmark');
    following.clock.advance(LONG_MS);
    expect(following.reflector.status().bookmarkAgeMs).toBe(LONG_MS);
    server.endWatches(PATH);
    await reconnected(following, 1);
    await until(() => server.seen.length === 2, 'the request');
    expect(server.seen[1]?.query.get('resourceVersion')).toBe('700');
  });

  test('asks for a life of 300 to 600 s, by chance', async () => {
    const server = await serverWith('a');
    server.watchList = 'refused';
    const lives: (string | null | undefined)[] = [];
    const following = follow(server);
    for (const chance of [0, 0.5, 0.999]) {
      following.clock.chance = chance;
      if (lives.length > 0) {
        following.clock.advance(LONG_MS);
        server.endWatches(PATH);
      }
      await reconnected(following, lives.length + 1);
      await following.watching();
      await until(() => server.seen.length === lives.length + 3, 'the request');
      lives.push(server.seen.at(-1)?.query.get('timeoutSeconds'));
    }
    expect(lives.slice(1)).toEqual(['450', '599']);
  });

  test('a server without bookmarks is left after two minutes of silence, and nothing is lost', async () => {
    const { server, following } = await watched('a');
    following.clock.advance(LIMITS.watchSilenceMs - 1);
    await idle();
    expect(server.seen).toHaveLength(1);
    following.clock.advance(1);
    await until(() => server.seen.length === 2, 'a new watch');
    server.put(PATH, slice('b'));
    await following.waitFor('put default/b');
    expect(server.kinds()).toEqual(['watchlist', 'watch']);
    expect(following.reflector.counters.ends.silent).toBe(1);
    expect(following.events).toEqual(['put default/b']);
  });

  test('bookmarks alone keep a watch', async () => {
    const { server, following } = await watched('a');
    for (let minute = 1; minute <= 5; minute += 1) {
      following.clock.advance(60_000);
      server.bookmark(PATH);
      await until(() => following.reflector.counters.events.BOOKMARK === minute + 1, 'a bookmark');
      await idle();
    }
    expect(server.seen).toHaveLength(1);
  });

  test('the kernel asks after 15 s whether the peer is there', async () => {
    const { server } = await watched('a');
    const [socket] = server.sockets;
    const port = socket?.remotePort?.toString(16).toUpperCase().padStart(4, '0');
    const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n');
    const ours = lines
      .map((line) => line.trim().split(/\s+/))
      .find((f) => f[1]?.endsWith(`:${port}`));
    const [timer, whenTicks = ''] = (ours?.[5] ?? '').split(':');
    // 02 = keepalive timer; in ticks of 10 ms (USER_HZ 100).
    expect(timer).toBe('02');
    expect(Number.parseInt(whenTicks, 16)).toBeGreaterThan(1_000);
    expect(Number.parseInt(whenTicks, 16)).toBeLessThanOrEqual(1_500);
  });
});

describe('410: a new list, and only the difference', () => {
  async function changedBehindOurBack(server: Awaited<ReturnType<typeof watched>>['server']) {
    server.resetWatches(PATH);
    await until(() => server.watchers.size === 0, 'the end of the watch');
    server.remove(PATH, 'a');
    server.put(PATH, slice('b', ['10.1.0.9']));
    server.put(PATH, slice('z'));
    server.compacted = server.version;
  }
  const DIFFERENCE = ['put default/b', 'put default/z', 'remove default/a'];

  test('as an ERROR event', async () => {
    const { server, following } = await watched('a', 'b', 'c', 'd');
    await changedBehindOurBack(server);
    await following.passPause();
    await following.waitFor('remove default/a');
    expect(following.events).toEqual(DIFFERENCE);
    expect(following.objects.size).toBe(4);
    expect(server.kinds()).toEqual(['watchlist', 'watch', 'watchlist']);
  });

  test('as the status of the watch', async () => {
    const { server, following } = await watched('a', 'b', 'c', 'd');
    server.fault = ({ query }, response) => {
      if (query.get('resourceVersion') === null) return false;
      status(response, 410, 'Expired');
      return true;
    };
    await changedBehindOurBack(server);
    await following.passPause();
    await following.waitFor('remove default/a');
    expect(following.events).toEqual(DIFFERENCE);
    expect(following.reflector.counters.ends.expired).toBe(1);
  });

  test('after a long life: at once', async () => {
    const { server, following } = await watched('a', 'b', 'c', 'd');
    following.clock.advance(LONG_MS);
    server.send(PATH, errorLine(410, 'too old resource version'));
    await until(() => following.reflector.counters.watchListStarts === 2, 'a new list');
    await idle();
    expect(following.events).toEqual([]);
  });

  test('a list that lags behind is refused by the server, and asked of the quorum', async () => {
    const server = await serverWith('a', 'b', 'c', 'd', 'e');
    server.watchList = 'refused';
    const following = follow(server);
    await following.watching();
    server.version -= 2;
    server.send(PATH, errorLine(410, 'expired'));
    await following.passPause();
    await until(() => following.reflector.counters.watchStarts === 2, 'the second watch');
    const lists = server.seen.filter(({ query }) => query.get('limit') !== null);
    expect(lists.map(({ query }) => query.get('resourceVersion'))).toEqual(['0', '105', null]);
    expect(lists[1]?.query.get('resourceVersionMatch')).toBe('NotOlderThan');
  });
});

describe('other ends that need a new list', () => {
  test('an ERROR event of another code: counted, events before it kept, told to wait', async () => {
    const { server, following } = await watched('a');
    const late = slice('b');
    const metadata = { ...late.metadata, resourceVersion: '900' };
    const event = eventLine('ADDED', { ...late, metadata });
    server.send(PATH, event + errorLine(500, 'etcd has no leader', { retryAfterSeconds: 7 }));
    expect(await following.passPause()).toBe(7_000);
    expect(following.events).toEqual(['put default/b']);
    await until(() => following.reflector.counters.watchListStarts === 2, 'a new list');
    expect(following.reflector.counters.ends.status).toBe(1);
    expect(following.reflector.counters.events.ERROR).toBe(1);
  });

  test('a line that is no JSON', async () => {
    const { server, following } = await watched('a');
    server.send(PATH, '{"type":"ADDED","object":{]\n');
    await following.passPause();
    await until(() => following.reflector.counters.watchListStarts === 2, 'a new list');
    expect(following.reflector.counters.ends.undecodable).toBe(1);
    await idle();
    expect(following.objects.size).toBe(1);
  });

  test('news of an object older than the stream: it may be late, or deleted since', async () => {
    const { server, following } = await watched('a', 'b');
    server.remove(PATH, 'a');
    await following.waitFor('remove default/a');
    const late = slice('a');
    const metadata = { ...late.metadata, resourceVersion: '101' };
    server.send(PATH, eventLine('MODIFIED', { ...late, metadata }));
    await following.passPause();
    await until(() => following.reflector.counters.watchListStarts === 2, 'a new list');
    await idle();
    expect([...following.objects.keys()]).toEqual(['default/b']);
    expect(following.reflector.counters.ends.disorder).toBe(1);
  });
});

test('repeated events, and events older than what is known, change nothing', async () => {
  const { server, following } = await watched('a');
  server.put(PATH, slice('a', ['10.1.0.2']));
  await following.waitFor('put default/a');
  const at = (version: string, address: string) => {
    const object = slice('a', [address]);
    const metadata = { ...object.metadata, uid: 'uid-default-a', resourceVersion: version };
    return eventLine('MODIFIED', { ...object, metadata });
  };
  server.send(PATH, at('102', '10.1.0.2') + at('101', '10.1.0.1'));
  await until(() => following.reflector.counters.staleEvents === 2, 'both');
  expect(following.events).toEqual(['put default/a']);
  expect(server.watchers.size).toBe(1);
});

test('events of unknown type and objects without a name are passed over', async () => {
  const { server, following } = await watched('a');
  server.send(PATH, `${eventLine('SURPRISE', {})}${eventLine('ADDED', { metadata: {} })}null\n7\n`);
  server.put(PATH, slice('b'));
  await following.waitFor('put default/b');
  expect(following.reflector.counters.events.OTHER).toBe(4);
});

test('an event that was lost is found by a list that was asked for', async () => {
  const server = await serverWith('a', 'b');
  const { reflector, passPause, waitFor, watching } = follow(server);
  await watching();
  const watchers = [...server.watchers];
  server.watchers.clear();
  server.put(PATH, slice('a', ['10.1.0.9']));
  server.remove(PATH, 'b');
  for (const watcher of watchers) server.watchers.add(watcher);
  reflector.relist();
  await passPause();
  await waitFor('put default/a', 2);
  await waitFor('remove default/b');
  await watching();
  expect(reflector.counters.ends.disorder).toBe(1);
  expect(reflector.status().problem).toBeUndefined();
});
