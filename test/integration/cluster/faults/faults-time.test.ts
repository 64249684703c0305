// SPDX-License-Identifier: Apache-2.0
// Long outages, clock jumps and lost stores, under traffic: the programmed state stays until the API server says
// otherwise, and the agent resumes watching.
import type { V1Service } from '@kubernetes/client-node';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { getInSandbox } from '../../../support/http/get.ts';
import { untilHolds } from '../../../support/until.ts';
import { makeServiceAccount } from '../control-plane/service-account.ts';
import { addNode, servicesPath } from '../objects/objects.ts';
import { type FakeClock, makeClock, prepareFaults } from '../programs/clock.ts';
import { countFromNow, type FaultCounts, least, sum, untilFollowed } from './fault-counts.ts';
import {
  type AgentOptions,
  addWeb,
  type FaultStage,
  NODE,
  startFaultStage,
} from './fault-stage.ts';

const readiness = await prepareFaults();

const FIVE_MINUTES_MS = 300_000;
/** The longest backoff is half a minute; at sixty times the speed each response takes seconds as well. */
const FEWEST_TRIES = 5;
const MOST_TRIES = 60;
/** Relative to real time. */
const JUMPS_SECONDS = { noon: 3_600, yesterday: -86_400, 'next-year': 31_536_000, today: 0 };

describe.skipIf(!readiness.isReady)('faults of time', () => {
  let stage: FaultStage;
  let counts: FaultCounts;
  let wallClock: FakeClock;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    stage = await startFaultStage(readiness.binaries);
    wallClock = await makeClock({ only: 'wall' });
    await stage.startAgent();
  });
  afterAll(async () => {
    wallClock?.remove();
    await stage?.remove();
  });
  beforeEach(() => stage.startTraffic());
  afterEach(async () => {
    await stage.endTraffic();
  });

  /** With a new agent and counts that start now. */
  async function follow(options: AgentOptions = {}): Promise<void> {
    await stage.startAgent(options);
    await untilFollowed(stage.status);
    counts = await countFromNow(stage.status);
  }
  /** Time since the last activity of any kind, by the agent's clock. */
  async function youngestMs(): Promise<number> {
    const { watches } = await stage.status();
    return Math.min(...watches.map(({ aliveAgeMs = 0 }) => aliveAgeMs));
  }

  test('an outage of the API server of five minutes', async () => {
    await follow();
    await stage.plane.server.kill();
    stage.clock.setSpeed(60);
    await untilHolds(async () => expect((await stage.status()).problems).toHaveLength(4), 60_000);
    const fromMs = await youngestMs();
    const tried = await counts.ended('broken');
    const triesSince = async (): Promise<readonly number[]> =>
      [...(await counts.ended('broken'))].map(([kind, tries]) => tries - tried.get(kind)!);
    await untilHolds(async () => {
      expect(await youngestMs()).toBeGreaterThan(fromMs + FIVE_MINUTES_MS);
      expect(Math.min(...(await triesSince()))).toBeGreaterThan(FEWEST_TRIES);
    });
    const tries = Math.max(...(await triesSince()));
    const outages = ((await youngestMs()) - fromMs) / FIVE_MINUTES_MS;
    expect(tries).toBeLessThan(MOST_TRIES * outages);
    stage.clock.setSpeed(10);
    await stage.plane.server.start();
    await stage.follows('after-five-minutes');
    await untilFollowed(stage.status);
    stage.clock.setSpeed(1);
    expect(await counts.suspicious()).toBe(0);
    expect(sum(await counts.ended('replaced'))).toBe(0);
  });

  test('stepping the wall clock forwards and back has no effect', async () => {
    await follow({ clock: wallClock });
    for (const [name, seconds] of Object.entries(JUMPS_SECONDS)) {
      wallClock.setOffset(seconds);
      await stage.follows(`after-${name}`);
      const { lastAt = '' } = (await stage.node.status()).sync;
      expect(Math.abs(Date.parse(lastAt) - Date.now() - seconds * 1000)).toBeLessThan(60_000);
      expect(await getInSandbox(stage.node.instance.sandbox, 10256, '/healthz')).toMatchObject({
        status: 200,
      });
    }
    expect(await counts.lists()).toBe(0);
    for (const reason of ['silent', 'broken', 'late'] as const) {
      expect(sum(await counts.ended(reason)), reason).toBe(0);
    }
  });

  test('a jump of hours, as after a suspended machine: watches are reopened without a list', async () => {
    const clock = await makeClock();
    await follow({ clock });
    clock.setOffset(10_000);
    await untilHolds(async () => expect(least(await counts.ended('silent'))).toBe(1), 60_000);
    await stage.follows('after-pause');
    expect(await getInSandbox(stage.node.instance.sandbox, 10256, '/healthz')).toMatchObject({
      status: 200,
    });
    expect(await counts.lists()).toBe(0);
    clock.remove();
  });

  test('an expired token is reported once, and its renewal is picked up', async () => {
    const account = await makeServiceAccount(stage.plane, 'fairlead');
    account.write(await account.token());
    await follow({ kubeconfig: account.kubeconfig });
    const old = await account.token({ lastsSeconds: 4 });
    account.write(old);
    stage.server.resetAll();
    await account.untilRefused(old);
    stage.clock.setSpeed(10);
    stage.server.resetAll();
    await untilHolds(async () => {
      const { problems } = await stage.status();
      const expired = expect.stringMatching(/^HTTP 401: Unauthorized: the token expired at /);
      expect(problems.map(({ reason }) => reason)).toEqual(Array(4).fill(expired));
    });
    const told = () => stage.log.filter((line) => line.includes('HTTP 401'));
    await untilHolds(() => expect(told()).toHaveLength(1), 60_000);
    await stage.traffic(500);
    expect(told()).toEqual([expect.stringContaining('the token expired at')]);
    account.write(await account.token());
    await stage.follows('after-renewal');
    await untilFollowed(stage.status);
    expect(await counts.suspicious()).toBe(0);
    stage.clock.setSpeed(1);
  });

  test('a token renewed in time: the old one is never used again', async () => {
    const account = await makeServiceAccount(stage.plane, 'renewed');
    account.write(await account.token());
    await follow({ kubeconfig: account.kubeconfig });
    const renewed = await account.token();
    account.write(renewed);
    const first = stage.server.asked.length;
    stage.server.resetAll();
    await untilHolds(
      async () => expect(least(await counts.ended('broken'))).toBeGreaterThan(0),
      60_000,
    );
    await stage.follows('after-timely-renewal');
    await untilFollowed(stage.status);
    // An Event that was on its way at the renewal may still show the old one; a watch is opened after it.
    const watches = stage.server.asked.slice(first).filter(({ isWatch }) => isWatch);
    expect(new Set(watches.map(({ path }) => path)).size).toBe(4);
    const shown = watches.map(({ authorization }) => authorization);
    expect(new Set(shown)).toEqual(new Set([`Bearer ${renewed}`]));
    expect((await stage.status()).unauthorizedRetries).toBe(0);
  });

  test('a store that was lost and refilled by hand: traffic continues', async () => {
    await follow();
    const { api } = stage.plane;
    const web = await api.get<V1Service>(`${servicesPath()}/web`);
    await stage.follows('forgotten');
    await stage.plane.replaceStore();
    await untilHolds(() => expect(stage.log.join()).toContain('suspicious list'), 60_000);
    stage.clock.setSpeed(0.1); // Ten seconds before the confirming list: time to refill the store.
    await untilHolds(() => expect(stage.log.join()).toContain('will list all kinds again'), 60_000);
    await stage.traffic(200);
    expect(await stage.inKernel()).toEqual(expect.arrayContaining(['web', 'forgotten']));
    await addNode(api, NODE);
    await addWeb(stage.plane, stage.node, { clusterIP: web.spec?.clusterIP ?? '' });
    stage.clock.setSpeed(10);
    await untilHolds(async () => expect(await stage.inKernel()).not.toContain('forgotten'), 60_000);
    await stage.traffic(200);
    await stage.follows('after-the-loss');
    await untilHolds(async () => expect(await stage.inKernel()).toContain('web'));
  });
});
