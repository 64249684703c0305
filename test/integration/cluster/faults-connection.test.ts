// SPDX-License-Identifier: Apache-2.0
// Connections that break and servers that refuse, while traffic runs: no request fails, what happened
// meanwhile is learnt without a new list, and nobody is asked more often than he can bear.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { untilHolds } from '../../support/until.ts';
import { prepareFaults } from './clock.ts';
import { countFromNow, type FaultCounts, least, sum, untilFollowed } from './fault-counts.ts';
import { type FaultStage, startFaultStage } from './fault-stage.ts';
import { type Asked, type Fault, refusal } from './faulty-server.ts';
import { addService } from './objects.ts';

/**
 * Simulated seconds for each real one: what takes the agent half a minute takes three seconds. The API
 * server's bookmarks keep to real minutes, so a quiet watch is given up, and opened again, every 12 s.
 */
const SPEED = 10;

/** Four kinds, and the question who answers. */
const PATHS = 5;

/**
 * Four kinds, each about seven times in half a minute, and the question who answers, before each of them and
 * about forty times besides; without pauses it is hundreds.
 */
const MOST_ASKED = 150;

const readiness = await prepareFaults();

describe.skipIf(!readiness.isReady)('faults of connections', () => {
  let stage: FaultStage;
  let counts: FaultCounts;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    stage = await startFaultStage(readiness.binaries, { speed: SPEED });
    await stage.startAgent();
  }, 180_000);
  afterAll(() => stage?.remove());
  beforeEach(async () => {
    await untilFollowed(stage.status);
    counts = await countFromNow(stage.status);
    await stage.startTraffic();
  });
  afterEach(async () => {
    stage.server.mend();
    await stage.endTraffic();
  });

  /** Breaks everything, and keeps it broken until every kind complains in these words. */
  async function breakUntilTold(fault: Fault, words: RegExp): Promise<void> {
    stage.server.inject(fault);
    stage.server.resetAll();
    await untilHolds(async () => {
      const { problems } = await stage.status();
      expect(problems.map(({ reason }) => reason)).toEqual(
        Array(4).fill(expect.stringMatching(words)),
      );
    }, 30_000);
  }
  const listAgeMs = async (): Promise<number> =>
    (await stage.status()).watches[0]?.listAgeMs ?? Number.NaN;
  /** How much is counted in half a minute of the agent's time. */
  async function inHalfMinute(count: () => number): Promise<number> {
    const [fromMs, from] = [await listAgeMs(), count()];
    await untilHolds(
      async () => expect(await listAgeMs()).toBeGreaterThan(fromMs + 30_000),
      30_000,
    );
    return count() - from;
  }
  async function isFollowedWithoutList(name: string): Promise<void> {
    stage.server.mend();
    await stage.follows(name);
    await untilFollowed(stage.status);
    expect(await counts.lists()).toBe(0);
  }

  test.each(['endInside', 'breakInside'] as const)(
    'a watch cut inside an object: %s',
    async (cut) => {
      const name = cut.toLowerCase();
      let cuts = 0;
      stage.server.inject({
        line: (line, stream) => {
          const isFirst = line.includes(`"name":"${name}"`) && cuts === 0;
          if (isFirst) cuts += 1;
          stream[isFirst ? cut : 'send'](line);
        },
      });
      await stage.follows(name);
      expect(cuts).toBe(1);
      expect(sum(await counts.ended('broken'))).toBe(1);
      expect(await counts.lists()).toBe(0);
    },
  );

  test('every connection reset, and every new one', async () => {
    await breakUntilTold({ connection: (socket) => socket.resetAndDestroy() }, /ECONNRESET/);
    await isFollowedWithoutList('after-resets');
  });

  test('a proxy that closes every connection at once is not pestered', async () => {
    stage.server.inject({ connection: (socket) => socket.destroy() });
    stage.server.resetAll();
    expect(await inHalfMinute(() => stage.server.connections)).toBeLessThan(MOST_ASKED);
    expect((await stage.status()).problems).toHaveLength(4);
    await isFollowedWithoutList('after-closing');
  });

  test('a peer that accepts connections and says nothing', async () => {
    await breakUntilTold({ connection: () => undefined }, /Connect Timeout/i);
    await isFollowedWithoutList('after-mute');
  });

  test('a peer that reads requests and never answers', async () => {
    await breakUntilTold({ answer: () => 'silence' }, /no answer from .* in time/);
    stage.server.resetAll();
    await isFollowedWithoutList('after-silence');
  });

  test('watches that fall silent: given up after two minutes, and nothing was missed', async () => {
    const frozen = new Set(stage.server.asked);
    stage.server.inject({
      line: (line, stream, asked) => {
        if (!frozen.has(asked)) stream.send(line);
      },
    });
    await addService(stage.plane.api, 'unheard', {});
    await stage.traffic(100);
    expect(await stage.inKernel()).not.toContain('unheard');
    await untilHolds(
      async () => expect(least(await counts.ended('silent'))).toBeGreaterThan(0),
      30_000,
    );
    await untilHolds(async () => expect(await stage.inKernel()).toContain('unheard'), 20_000);
    await isFollowedWithoutList('after-frozen');
  }, 60_000);

  test('watches that are accepted and ended at once: no list, no storm', async () => {
    stage.server.inject({
      answer: ({ isWatch }) => (isWatch ? { status: 200, body: '' } : undefined),
    });
    stage.server.resetAll();
    expect(await inHalfMinute(() => stage.server.asked.length)).toBeLessThan(MOST_ASKED);
    await isFollowedWithoutList('after-short-watches');
  });

  test('500 for everything: told once', async () => {
    const said = stage.log.length;
    const told = (): readonly string[] =>
      stage.log.slice(said).filter((line) => line.includes('HTTP 500'));
    await breakUntilTold({ answer: () => refusal(500, 'InternalError') }, /HTTP 500: faulty/);
    await untilHolds(() => expect(told()).toHaveLength(1));
    await stage.traffic(200);
    await isFollowedWithoutList('after-500s');
    expect(told()).toEqual([expect.stringMatching(/cannot watch the API server/)]);
  });

  test('429 with Retry-After: nobody asks earlier', async () => {
    const retryAfter = { 'retry-after': '20' };
    stage.server.inject({
      answer: () => ({ ...refusal(429, 'TooManyRequests'), headers: retryAfter }),
    });
    const first = stage.server.asked.length;
    stage.server.resetAll();
    const refused = (): Map<string, number[]> => timesByPath(stage.server.asked.slice(first));
    await untilHolds(() => {
      const often = [...refused().values()].filter(({ length }) => length > 2);
      expect(often).toHaveLength(PATHS);
    }, 30_000);
    stage.server.mend();
    for (const [path, times] of refused()) {
      const gaps = times.slice(1).map((atMs, index) => (atMs - times[index]!) * SPEED);
      // A timer of Node may fire a millisecond early.
      expect(Math.min(...gaps), path).toBeGreaterThan(20_000 - 3 * SPEED);
    }
    await isFollowedWithoutList('after-429s');
  }, 60_000);
});

function timesByPath(asked: readonly Asked[]): Map<string, number[]> {
  const times = new Map<string, number[]>();
  const ofKinds = asked.filter(({ query }) => query.get('limit') !== '1');
  for (const { path, atMs } of ofKinds) times.set(path, [...(times.get(path) ?? []), atMs]);
  return times;
}
