// SPDX-License-Identifier: Apache-2.0
// The first list goes out object by object. What it has shown when it breaks is no list, and is judged by
// the next complete one like anything known before.
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { LIMITS } from '../../../../../src/source/apiserver/limits.ts';
import { until } from '../../../../support/until.ts';
import {
  bookmarkLine,
  errorLine,
  eventLine,
  type FakeApiServer,
} from '../support/fake-api-server.ts';
import { follow, openServer, PATH, serverWith } from '../support/harness.ts';
import { slice } from '../support/objects.ts';
import { idle } from '../support/traffic.ts';

/** As the server would send it. */
function sent(type: string, name: string, version: number, address = '10.1.0.1'): string {
  const { metadata, ...rest } = slice(name, [address]);
  const uid = `uid-default-${name}`;
  return eventLine(type, {
    metadata: { uid, ...metadata, resourceVersion: String(version) },
    ...rest,
  });
}

type End = (response: ServerResponse, socket: Socket) => void;
const RST: End = (_response, socket) => socket.resetAndDestroy();

/** Answers the first request for initial events with this text, then ends it; others are met as usual. */
function breakFirst(server: FakeApiServer, text: string, end = RST): void {
  server.fault = ({ query }, response, socket) => {
    if (query.get('sendInitialEvents') === null) return false;
    server.fault = undefined;
    response.write(text);
    void idle().then(() => end(response, socket));
    return true;
  };
}

describe('initial events that break half-way', () => {
  test('were no list: synced comes after the next, and nothing comes twice', async () => {
    const server = await serverWith('a', 'b', 'c');
    breakFirst(server, sent('ADDED', 'a', 101) + sent('ADDED', 'b', 102));
    const following = follow(server);
    await following.waitFor('put default/b');
    await until(() => following.reflector.status().state === 'waiting', 'the end of it');
    expect(following.reflector.status()).toMatchObject({
      isSynced: false,
      objects: 2,
      resourceVersion: '',
    });
    await following.passPause();
    await following.waitFor('synced');
    const puts = ['a', 'b', 'c'].map((name) => `put default/${name}`);
    expect(following.events).toEqual([...puts, 'synced']);
    expect(server.kinds()).toEqual(['watchlist', 'watchlist']);
  });

  test('what the next list lacks goes, and what it has in another version is told', async () => {
    const server = await serverWith('a', 'b', 'c', 'd');
    breakFirst(server, sent('ADDED', 'gone', 99) + sent('ADDED', 'a', 98, '10.9.9.9'));
    const following = follow(server);
    await following.waitFor('put default/a');
    await following.passPause();
    await following.waitFor('synced');
    expect(following.suspicions).toEqual([]);
    expect([...following.objects.keys()].sort()).toEqual(
      ['a', 'b', 'c', 'd'].map((name) => `default/${name}`),
    );
    expect(following.objects.get('default/a')).toMatchObject({
      endpoints: [{ addresses: ['10.1.0.1'] }],
    });
  });

  test('another cluster answers next: not believed, and not synced, before it is asked twice', async () => {
    const server = await serverWith('x');
    const names = ['a', 'b', 'c', 'd', 'e'];
    breakFirst(server, names.map((name, index) => sent('ADDED', name, 80 + index)).join(''));
    const following = follow(server);
    await following.waitFor('put default/e');
    await following.passPause();
    await until(() => following.suspicions.length === 1, 'the suspicion');
    expect(following.suspicions[0]).toMatchObject({
      reason: 'everything vanished at once',
      held: 5,
    });
    await idle();
    expect(following.reflector.status().isSynced).toBe(false);
    following.clock.advance(LIMITS.confirmDelayMs);
    await following.waitFor('synced');
    expect([...following.objects.keys()]).toEqual(['default/x']);
  });

  test('known elsewhere to be another cluster: what is missing is held, however little', async () => {
    const server = await openServer();
    server.watchList = 'ignored';
    for (const name of ['a', 'b']) server.put(PATH, slice(name));
    const following = follow(server);
    await following.waitFor('put default/b');
    server.watchList = 'supported';
    server.remove(PATH, 'a');
    following.reflector.forceRelist();
    await until(() => following.suspicions.length === 1, 'the suspicion');
    expect(following.suspicions[0]).toMatchObject({ reason: 'another cluster answers', held: 1 });
    expect(following.reflector.status().isSynced).toBe(false);
    following.clock.advance(LIMITS.confirmDelayMs);
    await following.waitFor('synced');
    expect([...following.objects.keys()]).toEqual(['default/b']);
  });

  test.each([
    ['an ERROR event', errorLine(500, 'no leader')],
    ['a line that is no JSON', '{"type":\n'],
  ])('by %s: those before it count', async (_what, end) => {
    const server = await serverWith('a', 'b');
    breakFirst(server, sent('ADDED', 'gone', 90), (response) => response.write(end));
    const following = follow(server);
    await following.waitFor('put default/gone');
    await following.passPause();
    await following.waitFor('synced');
    expect(following.events.filter((event) => event.includes('gone'))).toEqual([
      'put default/gone',
      'remove default/gone',
    ]);
  });
});

describe('initial events in any order', () => {
  async function receiving(text: string) {
    const server = await openServer();
    server.watchList = 'ignored';
    const following = follow(server);
    await until(() => server.watchers.size === 1, 'the watch');
    server.send(PATH, text + bookmarkLine(500, true));
    await following.waitFor('synced');
    return following;
  }

  test('an object twice is told once, and an older version of it later is not told', async () => {
    const text = [
      sent('ADDED', 'a', 110, '10.1.0.2'),
      sent('ADDED', 'a', 110, '10.1.0.2'),
      sent('ADDED', 'a', 90, '10.1.0.3'),
      sent('DELETED', 'a', 80),
    ];
    const following = await receiving(text.join(''));
    expect(following.events).toEqual(['put default/a', 'synced']);
  });

  test('a newer version later is told', async () => {
    const text = sent('ADDED', 'a', 110, '10.1.0.2') + sent('MODIFIED', 'a', 120, '10.1.0.3');
    const following = await receiving(text);
    expect(following.objects.get('default/a')).toMatchObject({
      endpoints: [{ addresses: ['10.1.0.3'] }],
    });
  });

  test('deleted, and made again', async () => {
    const text = [
      sent('ADDED', 'a', 110),
      sent('DELETED', 'a', 120),
      sent('DELETED', 'b', 121),
      sent('ADDED', 'a', 130),
    ];
    const following = await receiving(text.join(''));
    expect(following.events).toEqual([
      'put default/a',
      'remove default/a',
      'put default/a',
      'synced',
    ]);
  });
});

describe('pages', () => {
  test('those before an item that is no JSON count, and the next list judges them', async () => {
    const server = await serverWith('a', 'b');
    server.watchList = 'refused';
    let isBad = true;
    server.fault = ({ query }, response) => {
      if (query.get('limit') === null || !isBad) return false;
      isBad = false;
      const item = sent('ADDED', 'gone', 90).replace('{"type":"ADDED","object":', '').slice(0, -2);
      response.end(`{"metadata":{"resourceVersion":"100"},"items":[${item},{"metadata":}]}`);
      return true;
    };
    const following = follow(server);
    await following.passPause();
    await following.waitFor('synced');
    expect(following.events).toContain('put default/gone');
    expect([...following.objects.keys()].sort()).toEqual(['default/a', 'default/b']);
  });

  test('a later list says nothing before its last page', async () => {
    const server = await openServer();
    server.watchList = 'refused';
    for (let index = 0; index < 600; index += 1) server.put(PATH, slice(`s${index}`));
    const following = follow(server);
    await following.watching();
    following.events.length = 0;
    server.resetWatches(PATH);
    await until(() => server.watchers.size === 0, 'the end of the watch');
    for (const name of ['s1', 's599']) server.put(PATH, slice(name, ['10.1.0.7']));
    server.compacted = server.version;
    let toldBefore = -1;
    server.fault = ({ query }) => {
      if (query.get('continue') !== null) toldBefore = following.events.length;
      return false;
    };
    await following.passPause();
    await following.waitFor('put default/s599');
    expect(toldBefore).toBe(0);
    expect(following.events).toEqual(['put default/s1', 'put default/s599']);
  });
});
