// SPDX-License-Identifier: Apache-2.0
// Broken connections and servers that return errors, under traffic: no request fails, missed changes arrive
// without a new list, and requests stay within the backoff.
import { describe, expect, test } from 'vitest';
import { untilHolds } from '../../../support/until.ts';
import { addService } from '../objects/objects.ts';
import { prepareFaults } from '../programs/clock.ts';
import { least, sum, untilFollowed } from './fault-counts.ts';
import { hookFaultStage, SPEED } from './fault-hooks.ts';
import { type Asked, type Fault, refusal } from './faulty-server.ts';

/** Four kinds, and the probe of which server answers. */
const PATHS = 5;

/**
 * Four kinds, each about seven times in half a minute, with a probe of the server before each and about forty
 * more probes; without backoff there are hundreds of requests.
 */
const MOST_ASKED = 150;

const readiness = await prepareFaults();

describe.skipIf(!readiness.isReady)('faults of connections', () => {
  const running = hookFaultStage(readiness);

  /** Injects a fault and keeps it until every kind reports this problem. */
  async function breakUntilTold(fault: Fault, words: RegExp): Promise<void> {
    running.stage.server.inject(fault);
    running.stage.server.resetAll();
    await untilHolds(async () => {
      const { problems } = await running.stage.status();
      expect(problems.map(({ reason }) => reason)).toEqual(
        Array(4).fill(expect.stringMatching(words)),
      );
    });
  }
  const listAgeMs = async (): Promise<number> =>
    (await running.stage.status()).watches[0]?.listAgeMs ?? Number.NaN;
  /** What is counted within half a minute of the agent's clock, of which a late look may be seconds late. */
  async function inHalfMinute(count: () => number): Promise<number> {
    const [fromMs, from] = [await listAgeMs(), count()];
    let [halfMinutes, counted] = [0, 0];
    await untilHolds(async () => {
      counted = count() - from;
      halfMinutes = ((await listAgeMs()) - fromMs) / 30_000;
      expect(halfMinutes).toBeGreaterThan(1);
    });
    return counted / halfMinutes;
  }
  async function isFollowedWithoutList(name: string): Promise<void> {
    running.stage.server.mend();
    await running.stage.follows(name);
    await untilFollowed(running.stage.status);
    expect(await running.counts.lists()).toBe(0);
  }

  test.each(['endInside', 'breakInside'] as const)(
    'a watch cut off within an object: %s',
    async (cut) => {
      const name = cut.toLowerCase();
      let cuts = 0;
      running.stage.server.inject({
        line: (line, stream) => {
          const isFirst = line.includes(`"name":"${name}"`) && cuts === 0;
          if (isFirst) cuts += 1;
          stream[isFirst ? cut : 'send'](line);
        },
      });
      await running.stage.follows(name);
      expect(cuts).toBe(1);
      expect(sum(await running.counts.ended('broken'))).toBeGreaterThan(0);
      expect(await running.counts.lists()).toBe(0);
    },
  );

  test('all connections are reset, new ones too', async () => {
    await breakUntilTold({ connection: (socket) => socket.resetAndDestroy() }, /ECONNRESET/);
    await isFollowedWithoutList('after-resets');
  });

  test('a proxy that closes every connection at once is retried with backoff', async () => {
    running.stage.server.inject({ connection: (socket) => socket.destroy() });
    running.stage.server.resetAll();
    expect(await inHalfMinute(() => running.stage.server.connections)).toBeLessThan(MOST_ASKED);
    await untilHolds(async () => expect((await running.stage.status()).problems).toHaveLength(4));
    await isFollowedWithoutList('after-closing');
  });

  test('a peer that accepts connections but sends nothing', async () => {
    await breakUntilTold({ connection: () => undefined }, /Connect Timeout/i);
    await isFollowedWithoutList('after-mute');
  });

  test('a peer that reads requests but never answers', async () => {
    await breakUntilTold({ answer: () => 'silence' }, /no answer from .* in time/);
    running.stage.server.resetAll();
    await isFollowedWithoutList('after-silence');
  });

  test('silent watches are reopened after two minutes, and no change is missed', async () => {
    const frozen = new Set(running.stage.server.asked);
    running.stage.server.inject({
      line: (line, stream, asked) => {
        if (!frozen.has(asked)) stream.send(line);
      },
    });
    await addService(running.stage.plane.api, 'unheard', {});
    await running.stage.traffic(100);
    const meanwhile = await running.stage.inKernel();
    // On a slow machine the two minutes of the agent's clock may be over already.
    if ((await running.counts.ended('silent')).get('Service') === 0)
      expect(meanwhile).not.toContain('unheard');
    await untilHolds(
      async () => expect(least(await running.counts.ended('silent'))).toBeGreaterThan(0),
      60_000,
    );
    await untilHolds(
      async () => expect(await running.stage.inKernel()).toContain('unheard'),
      60_000,
    );
    await isFollowedWithoutList('after-frozen');
  });

  test('watches that end at once cause neither lists nor a request storm', async () => {
    running.stage.server.inject({
      answer: ({ isWatch }) => (isWatch ? { status: 200, body: '' } : undefined),
    });
    running.stage.server.resetAll();
    expect(await inHalfMinute(() => running.stage.server.asked.length)).toBeLessThan(MOST_ASKED);
    await isFollowedWithoutList('after-short-watches');
  });

  test('500 for everything is reported once', async () => {
    const said = running.stage.log.length;
    const told = (): readonly string[] =>
      running.stage.log.slice(said).filter((line) => line.includes('HTTP 500'));
    await breakUntilTold({ answer: () => refusal(500, 'InternalError') }, /HTTP 500: faulty/);
    // Later by up to a minute of the agent's clock, if the end of the previous fault was not reported yet.
    await untilHolds(() => expect(told()).toHaveLength(1), 60_000);
    await running.stage.traffic(200);
    await isFollowedWithoutList('after-500s');
    expect(told()).toEqual([expect.stringMatching(/cannot watch the API server/)]);
  });

  test('429 with Retry-After: no request comes earlier', async () => {
    const retryAfter = { 'retry-after': '20' };
    running.stage.server.inject({
      answer: () => ({ ...refusal(429, 'TooManyRequests'), headers: retryAfter }),
    });
    const first = running.stage.server.asked.length;
    running.stage.server.resetAll();
    const refused = (): Map<string, number[]> =>
      timesByPath(running.stage.server.asked.slice(first));
    await untilHolds(() => {
      const often = [...refused().values()].filter(({ length }) => length > 2);
      expect(often).toHaveLength(PATHS);
    });
    running.stage.server.mend();
    for (const [path, times] of refused()) {
      const gaps = times.slice(1).map((atMs, index) => (atMs - times[index]!) * SPEED);
      // Node's timers may fire a millisecond early.
      expect(Math.min(...gaps), path).toBeGreaterThan(20_000 - 3 * SPEED);
    }
    await isFollowedWithoutList('after-429s');
  });
});

function timesByPath(asked: readonly Asked[]): Map<string, number[]> {
  const times = new Map<string, number[]>();
  const ofKinds = asked.filter(({ query }) => query.get('limit') !== '1');
  for (const { path, atMs } of ofKinds) times.set(path, [...(times.get(path) ?? []), atMs]);
  return times;
}
