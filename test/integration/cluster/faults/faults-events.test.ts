// SPDX-License-Identifier: Apache-2.0
// Duplicate, late and reordered events, incomplete lists and older servers, under traffic: the programmed state
// ends up correct and is never based on part of a list.
import { describe, expect, test } from 'vitest';
import { untilHolds } from '../../../support/until.ts';
import type { Api } from '../objects/api.ts';
import { addService, servicesPath } from '../objects/objects.ts';
import { prepareFaults } from '../programs/clock.ts';
import { countFromNow, sum, untilFollowed } from './fault-counts.ts';
import { hookFaultStage } from './fault-hooks.ts';
import { type Asked, type Fault, type Refusal, refusal } from './faulty-server.ts';

const readiness = await prepareFaults();

const SERVICES = '/api/v1/services';
const isOf = ({ path }: Asked, line: string, name: string): boolean =>
  path === SERVICES && line.includes(`"name":"${name}"`);
/** The wording of kube-apiserver 1.31. */
const withoutWatchList = ({ query }: Asked): Refusal | undefined =>
  query.has('sendInitialEvents')
    ? refusal(
        422,
        'Invalid',
        'sendInitialEvents is forbidden for watch unless WatchList is enabled',
      )
    : undefined;

describe.skipIf(!readiness.isReady)('faults of lists and events', () => {
  const running = hookFaultStage(readiness);

  const api = (): Api => running.stage.plane.api;
  const change = (name: string, port: number) =>
    api().patch(`${servicesPath()}/${name}`, { spec: { ports: [{ name: 'http', port }] } });
  const portsOf = async (name: string): Promise<(string | undefined)[]> => {
    const rows = (await running.stage.rows()).filter((row) => row.name === name);
    return rows.map(({ frontend, kernelState }) => `${/:\d+/.exec(frontend)?.[0]} ${kernelState}`);
  };
  /** Holds back the lines of one Service until there are `count` of them, then sends them in reverse order. */
  const reversing = (name: string, many: number): Fault => {
    const held: string[] = [];
    return {
      line: (line, stream, asked) => {
        if (!isOf(asked, line, name) || held.length === many) return stream.send(line);
        held.push(line);
        if (held.length === many) for (const each of held.toReversed()) stream.send(each);
      },
    };
  };

  test('every event delivered twice', async () => {
    await addService(api(), 'goes', {});
    running.stage.server.inject({
      line: (line, stream) => {
        stream.send(line);
        stream.send(line);
      },
    });
    await api().remove(`${servicesPath()}/goes`);
    await running.stage.follows('twice');
    expect(await running.stage.inKernel()).not.toContain('goes');
    expect(await running.counts.lists()).toBe(0);
    await untilHolds(async () => {
      const stale = (await running.stage.status()).watches.map(
        ({ counters }) => counters.staleEvents,
      );
      expect(Math.max(...stale)).toBeGreaterThan(0);
    });
  });

  test('changes of one object in the wrong order: the newest wins', async () => {
    await running.stage.follows('turned');
    running.stage.server.inject(reversing('turned', 3));
    for (const port of [81, 82, 83]) await change('turned', port);
    await untilHolds(async () => expect(await portsOf('turned')).toEqual([':83 ok']), 60_000);
    await running.stage.follows('after-turned');
    expect(await portsOf('turned')).toEqual([':83 ok']);
    expect(await running.counts.lists()).toBe(0);
  });

  test('a DELETED event before its ADDED: the agent lists again', async () => {
    running.stage.server.inject(reversing('unborn', 2));
    await addService(api(), 'unborn', {});
    await api().remove(`${servicesPath()}/unborn`);
    await untilHolds(
      async () => expect(sum(await running.counts.ended('disorder'))).toBe(1),
      60_000,
    );
    await running.stage.follows('after-unborn');
    expect(await running.stage.inKernel()).not.toContain('unborn');
    expect(await running.counts.suspicious()).toBe(0);
  });

  test('a late event of a deleted object does not bring it back', async () => {
    let added = '';
    let repeats = 0;
    running.stage.server.inject({
      line: (line, stream, asked) => {
        stream.send(line);
        if (!isOf(asked, line, 'ghost')) return;
        if (line.startsWith('{"type":"ADDED"')) added = line;
        if (!line.startsWith('{"type":"DELETED"')) return;
        repeats += 1;
        stream.send(added);
      },
    });
    await running.stage.follows('ghost');
    await api().remove(`${servicesPath()}/ghost`);
    await untilHolds(() => expect(repeats).toBe(1), 60_000);
    await running.stage.follows('after-ghost');
    expect(await running.stage.inKernel()).not.toContain('ghost');
    expect((await running.counts.ended('disorder')).get('Service')).toBe(1);
  });

  test('pages that expire during a list: the old state stays until a list is complete', async () => {
    await running.stage.follows('vanishes');
    let pagesRefused = 0;
    const paging: Fault = {
      // Small pages, as if there were thousands of Services; read from etcd, since only those lists are paged.
      question: (query) => {
        if (!query.has('limit')) return;
        query.set('limit', '1');
        query.delete('resourceVersion');
        query.delete('resourceVersionMatch');
      },
    };
    running.stage.server.inject({
      ...paging,
      answer: (asked) => {
        if (asked.query.has('continue')) pagesRefused += 1;
        const isExpired = asked.isWatch || asked.query.has('continue');
        return withoutWatchList(asked) ?? (isExpired ? refusal(410, 'Expired') : undefined);
      },
    });
    running.stage.server.resetAll();
    await addService(api(), 'appears', {});
    await api().remove(`${servicesPath()}/vanishes`);
    await untilHolds(async () => {
      expect((await running.counts.ended('expired')).get('Service')).toBeGreaterThan(3);
    });
    expect(pagesRefused).toBeGreaterThan(1);
    expect(await running.stage.inKernel()).toContain('vanishes');
    expect(await running.stage.inKernel()).not.toContain('appears');
    const pagesBefore = running.stage.server.asked.filter(({ query }) =>
      query.has('continue'),
    ).length;
    running.stage.server.inject({ ...paging, answer: withoutWatchList });
    await running.stage.follows('after-pages');
    expect(await running.stage.inKernel()).toContain('appears');
    expect(await running.stage.inKernel()).not.toContain('vanishes');
    const pages = running.stage.server.asked.filter(({ query }) => query.has('continue')).length;
    expect(pages - pagesBefore).toBeGreaterThan(1);
    expect(await running.counts.suspicious()).toBe(0);
  });

  test('a server without WatchList', async () => {
    running.stage.server.inject({ answer: withoutWatchList });
    await running.stage.startAgent();
    await running.stage.follows('without-watch-list');
    await untilFollowed(running.stage.status);
    const { watches } = await running.stage.status();
    expect(watches.map(({ isWatchListUsed }) => isWatchListUsed)).toEqual(Array(4).fill(false));
  });

  test('a server so old that it ignores sendInitialEvents', async () => {
    // A new server still sends the final bookmark, which is dropped here.
    running.stage.server.inject({
      question: (query) => {
        query.delete('sendInitialEvents');
        query.delete('resourceVersionMatch');
      },
      line: (line, stream) => {
        if (!line.includes('k8s.io/initial-events-end')) stream.send(line);
      },
    });
    await running.stage.startAgent();
    await running.stage.follows('unmarked');
    await untilFollowed(running.stage.status);
    const { watches } = await running.stage.status();
    expect(watches.map(({ counters }) => counters.ends.late)).toEqual(Array(4).fill(1));
  });

  test('a server without bookmarks: compacted history costs one list and nothing else', async () => {
    running.stage.server.inject({
      answer: withoutWatchList,
      question: (query) => query.delete('allowWatchBookmarks'),
    });
    await running.stage.startAgent();
    await running.stage.follows('without-bookmarks');
    await untilFollowed(running.stage.status);
    const { watches } = await running.stage.status();
    expect(watches.map(({ bookmarkAgeMs }) => bookmarkAgeMs)).toEqual(Array(4).fill(undefined));
    const counts = await countFromNow(running.stage.status);
    await running.stage.plane.forgetHistory();
    await running.stage.follows('after-forgetting');
    await untilHolds(
      async () => expect(sum(await counts.ended('expired'))).toBeGreaterThan(0),
      60_000,
    );
    expect(await counts.suspicious()).toBe(0);
  });
});
