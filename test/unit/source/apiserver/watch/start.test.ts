// SPDX-License-Identifier: Apache-2.0
// The first complete list: initial events if the server supports them, otherwise pages.
import { describe, expect, test } from 'vitest';
import { ownNode, SERVICE_CIDRS, SERVICES } from '../../../../../src/source/apiserver/kinds.ts';
import { LIMITS } from '../../../../../src/source/apiserver/limits.ts';
import { until } from '../../../../support/until.ts';
import { bookmarkLine, eventLine, type FakeApiServer, status } from '../support/fake-api-server.ts';
import { follow, openServer, PATH, serverWith } from '../support/harness.ts';
import { node, service, slice } from '../support/objects.ts';
import { idle } from '../support/traffic.ts';

describe('selectors', () => {
  test('Services and slices are asked for as kube-proxy does', async () => {
    const server = await serverWith('a');
    server.put(SERVICES.path, service('web'));
    await follow(server).waitFor('synced');
    await follow(server, { spec: SERVICES }).waitFor('synced');
    const [slices, services] = server.seen.map(({ query }) => query);
    expect(slices?.get('labelSelector')).toBe('!service.kubernetes.io/headless');
    expect(slices?.get('fieldSelector')).toBeNull();
    expect(services?.get('labelSelector')).toBe('!service.kubernetes.io/service-proxy-name');
    expect(services?.get('fieldSelector')).toBe('spec.clusterIP!=None');
  });

  test("this node's Node is asked for by name, and a heartbeat of it is no change", async () => {
    const server = await openServer();
    const { path } = ownNode('n1');
    server.put(path, node('n1'));
    server.put(path, node('n2'));
    const following = follow(server, { spec: ownNode('n1') });
    await following.watching();
    server.put(path, node('n1', 1));
    const zone = { 'topology.kubernetes.io/zone': 'zone-b' };
    const moved = node('n1', 2);
    server.put(path, { ...moved, metadata: { ...moved.metadata, labels: zone } });
    await following.waitFor('put /n1', 2);
    expect(server.seen[0]?.query.get('fieldSelector')).toBe('metadata.name=n1');
    expect(following.events).toEqual(['put /n1', 'synced', 'put /n1']);
    expect(following.reflector.counters.events.MODIFIED).toBe(2);
  });

  test('objects sent in spite of the selector are ignored', async () => {
    const server = await openServer();
    server.put(SERVICES.path, service('web'));
    const following = follow(server, { spec: SERVICES });
    await following.watching();
    const labels = { 'service.kubernetes.io/service-proxy-name': '' };
    const sent = (object: unknown) => server.send(SERVICES.path, eventLine('ADDED', object));
    const headless = { metadata: { name: 'h', namespace: 'd', resourceVersion: '900' } };
    sent({ ...headless, spec: { clusterIP: 'None' } });
    sent({ metadata: { name: 'f', namespace: 'd', resourceVersion: '901', labels }, spec: {} });
    sent({ metadata: { name: 'ok', namespace: 'd', resourceVersion: '902' }, spec: {} });
    await following.waitFor('put d/ok');
    expect(following.events).toEqual(['put default/web', 'synced', 'put d/ok']);
  });

  test('a Service that gains the foreign proxy label goes, one that loses it comes', async () => {
    const server = await openServer();
    server.put(SERVICES.path, service('web'));
    const following = follow(server, { spec: SERVICES });
    await following.watching();
    server.put(
      SERVICES.path,
      service('web', 80, { 'service.kubernetes.io/service-proxy-name': 'x' }),
    );
    await following.waitFor('remove default/web');
    server.put(SERVICES.path, service('web'));
    await following.waitFor('put default/web', 2);
  });

  test('a server that cannot select by clusterIP is asked without it', async () => {
    const server = await openServer();
    server.put(SERVICES.path, service('web'));
    server.fault = ({ query }, response) => {
      if (query.get('fieldSelector') === null) return false;
      status(response, 400, 'field label not supported: spec.clusterIP');
      return true;
    };
    const following = follow(server, { spec: SERVICES });
    await following.passPause();
    await following.watching();
    expect(server.kinds()).toEqual(['watchlist', 'list', 'list', 'watch']);
  });
});

describe('WatchList (KEP-3157)', () => {
  test('objects go out as they come, and are no complete list before the end mark', async () => {
    const server = await openServer();
    server.watchList = 'ignored';
    server.put(PATH, slice('a'));
    server.put(PATH, slice('b'));
    const following = follow(server);
    await following.waitFor('put default/b');
    await idle();
    expect(following.events).toEqual(['put default/a', 'put default/b']);
    expect(following.reflector.status()).toMatchObject({ isSynced: false, resourceVersion: '' });
    server.send(PATH, bookmarkLine(server.version, true));
    await following.waitFor('synced');
    expect(following.events).toEqual(['put default/a', 'put default/b', 'synced']);
    const [request] = server.seen;
    expect(Object.fromEntries(request?.query ?? [])).toEqual({
      watch: 'true',
      sendInitialEvents: 'true',
      resourceVersionMatch: 'NotOlderThan',
      allowWatchBookmarks: 'true',
      timeoutSeconds: '450',
      labelSelector: '!service.kubernetes.io/headless',
    });
    server.put(PATH, slice('c'));
    await following.waitFor('put default/c');
    expect(server.seen).toHaveLength(1);
  });

  test('the version to go on from is that of the mark, not of an initial event', async () => {
    const server = await serverWith('a', 'b');
    server.version = 500;
    const following = follow(server);
    await following.waitFor('synced');
    expect(following.reflector.status().resourceVersion).toBe('500');
  });

  test('an ordinary bookmark among the initial events is not their end', async () => {
    const server = await openServer();
    server.watchList = 'ignored';
    server.put(PATH, slice('a'));
    const following = follow(server);
    await until(() => server.watchers.size === 1, 'the watch');
    server.bookmark(PATH);
    await until(() => following.reflector.counters.events.BOOKMARK === 1, 'the bookmark');
    await idle();
    expect(following.events).toEqual(['put default/a']);
    server.send(PATH, bookmarkLine(server.version, true));
    await following.waitFor('synced');
  });

  test('an object deleted among the initial events goes again', async () => {
    const server = await openServer();
    server.watchList = 'ignored';
    server.put(PATH, slice('a'));
    server.put(PATH, slice('b'));
    const following = follow(server);
    await until(() => server.watchers.size === 1, 'the watch');
    server.remove(PATH, 'a');
    server.send(PATH, bookmarkLine(server.version, true));
    await following.waitFor('synced');
    expect(following.objects.size).toBe(1);
    expect(following.events.slice(-2)).toEqual(['remove default/a', 'synced']);
  });

  test.each([400, 403, 405, 422])(
    'a server that answers %i is listed instead, at once',
    async (code) => {
      const server = await serverWith('a');
      server.fault = ({ query }, response) => {
        if (query.get('sendInitialEvents') === null) return false;
        status(response, code, 'no');
        return true;
      };
      const following = follow(server);
      await following.watching();
      expect(following.events).toEqual(['put default/a', 'synced']);
      expect(server.kinds()).toEqual(['watchlist', 'list', 'watch']);
      expect(server.seen[2]?.query.get('resourceVersion')).toBe('101');
    },
  );

  test('no end of the initial events for 10 s: listed instead, and nothing twice', async () => {
    const server = await serverWith('a');
    server.watchList = 'ignored';
    const following = follow(server);
    await until(() => following.reflector.counters.events.ADDED === 1, 'the initial event');
    await idle();
    following.clock.advance(LIMITS.initialSilenceMs - 1);
    await idle();
    expect(server.kinds()).toEqual(['watchlist']);
    following.clock.advance(1);
    await following.watching();
    expect(server.kinds()).toEqual(['watchlist', 'list', 'watch']);
    expect(following.events).toEqual(['put default/a', 'synced']);
    expect(following.reflector.counters.ends.late).toBe(1);
  });

  test('initial events that never end and never rest are given up after 60 s', async () => {
    const server = await serverWith('a');
    server.watchList = 'ignored';
    const following = follow(server);
    await until(() => server.watchers.size === 1, 'the watch');
    for (let second = 0; second < 60 && server.seen.length === 1; second += 5) {
      const { events } = following.reflector.counters;
      const before = events.ADDED + events.MODIFIED;
      server.put(PATH, slice('a'));
      await until(() => events.ADDED + events.MODIFIED > before, 'an event');
      await idle();
      following.clock.advance(5_000);
    }
    await following.watching();
    expect(server.kinds()).toEqual(['watchlist', 'list', 'watch']);
  });
});

describe('LIST (KEP-365)', () => {
  async function listed(count: number, hasPages: boolean) {
    const server = await openServer();
    server.watchList = 'refused';
    server.hasPages = hasPages;
    for (let index = 0; index < count; index += 1) server.put(PATH, slice(`s${index}`));
    return { server, following: follow(server) };
  }

  test('from the cache, page by page, with the version on the first page only', async () => {
    const { server, following } = await listed(1_200, true);
    await following.waitFor('synced');
    expect(following.objects.size).toBe(1_200);
    const pages = server.seen.slice(1, 4).map(({ query }) => query);
    expect(pages.map((page) => page.get('limit'))).toEqual(['500', '500', '500']);
    expect(pages.map((page) => page.get('resourceVersion'))).toEqual(['0', null, null]);
    expect(pages.map((page) => page.get('continue'))).toEqual([null, '500', '1000']);
    expect(following.reflector.counters.items).toBe(1_200);
  });

  test('a server that ignores limit answers all in one body', async () => {
    const { server, following } = await listed(1_200, false);
    await following.waitFor('synced');
    await following.watching();
    expect(following.objects.size).toBe(1_200);
    expect(server.kinds()).toEqual(['watchlist', 'list', 'watch']);
  });

  test('a continue token that expired starts the list again, and nothing is told twice', async () => {
    const { server, following } = await listed(700, true);
    let isExpired = true;
    server.fault = ({ query }, response) => {
      if (query.get('continue') === null || !isExpired) return false;
      isExpired = false;
      expect(following.events).toHaveLength(500);
      status(response, 410, 'The provided continue parameter is too old');
      return true;
    };
    await following.waitFor('synced');
    expect(server.kinds().slice(0, 5)).toEqual(['watchlist', 'list', 'list', 'list', 'list']);
    expect(following.events).toHaveLength(701);
  });

  test('a truncated body is not a list', async () => {
    const { server, following } = await listed(3, true);
    let isCut = true;
    server.fault = ({ query }, response) => {
      if (query.get('limit') === null || !isCut) return false;
      isCut = false;
      response.end(
        '{"kind":"List","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name"',
      );
      return true;
    };
    await following.passPause();
    expect(following.events).toEqual([]);
    await following.waitFor('synced');
    expect(following.objects.size).toBe(3);
  });

  test.each([
    ['after its headers', ''],
    ['in its middle', '{"kind":"List","metadata":{"resourceVersion":"5"},"items":['],
  ])('a body that stops flowing %s is given up', async (_where, text) => {
    const { server, following } = await listed(3, true);
    let isStuck = true;
    server.fault = ({ query }, response) => {
      if (query.get('limit') === null || !isStuck) return false;
      isStuck = false;
      response.flushHeaders();
      if (text !== '') response.write(text);
      return true;
    };
    await until(() => server.seen.length === 2, 'the list');
    await idle();
    following.clock.advance(LIMITS.listSilenceMs);
    await until(() => following.reflector.counters.ends.silent === 1, 'the end of it');
    await following.passPause();
    await following.waitFor('synced');
  });
});

describe('optional kinds', () => {
  test.each([403, 404])('%i means that there are none, and is asked again later', async (code) => {
    const server = await openServer();
    server.fault = (_seen, response) => {
      status(response, code, 'no such resource');
      return true;
    };
    const following = follow(server, { spec: SERVICE_CIDRS });
    await until(() => following.reflector.status().state === 'absent', 'absence');
    expect(following.reflector.status().problem).toBeUndefined();
    expect(following.clock.delaysMs()).toEqual([LIMITS.absentRetryMs]);
    server.fault = undefined;
    server.put(SERVICE_CIDRS.path, { metadata: { name: 'kubernetes' }, spec: {} });
    following.clock.advance(LIMITS.absentRetryMs);
    await following.waitFor('put /kubernetes');
  });

  const forbid = (server: FakeApiServer, code: number): void => {
    server.fault = (_seen, response) => {
      status(response, code, 'not now');
      return true;
    };
  };

  test('403 for what was shown before is a server that does not know its roles yet', async () => {
    const server = await openServer();
    server.put(SERVICE_CIDRS.path, { metadata: { name: 'kubernetes' }, spec: {} });
    const following = follow(server, { spec: SERVICE_CIDRS });
    await following.watching();
    forbid(server, 403);
    server.resetWatches(SERVICE_CIDRS.path);
    await following.passPause();
    await until(() => following.reflector.counters.ends.refused === 1, 'the refusal');
    server.fault = undefined;
    expect(await following.passPause()).toBeLessThan(LIMITS.backoff.maxMs);
    await following.watching();
  });

  test('an absent kind is not a problem, and clears the problem of a server that was down', async () => {
    const server = await openServer();
    forbid(server, 500);
    const following = follow(server, { spec: SERVICE_CIDRS });
    await following.passPause();
    await until(() => following.reflector.counters.ends.refused === 2, 'two failures');
    await until(() => following.reflector.status().problem !== undefined, 'the problem');
    forbid(server, 404);
    await following.passPause();
    await until(() => following.reflector.status().state === 'absent', 'absence');
    expect(following.reflector.status().problem).toBeUndefined();
  });
});
