// SPDX-License-Identifier: Apache-2.0
// The agent is killed with SIGKILL at random points of a sync, under traffic. After each restart the kernel must
// hold what a fresh list of all objects means, and at the end exactly what an agent that was never killed writes.
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Plan } from '../../../../src/plan/types.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { startOneNode } from '../../../support/node.ts';
import { ANY_NUMBER_MS, atNight, fraction, repeatable, SEED } from '../../../support/random.ts';
import { untilHolds } from '../../../support/until.ts';
import { type Launched, launch } from '../agent/launch.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import { addNode } from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { type Burst, burst, bursts, makeServices, removeServices, targetOf } from './bursts.ts';
import {
  heldOf,
  isWrittenAfter,
  listObjects,
  POD_RANGES,
  planOf,
  spin,
  tablesBelow,
  wrongIn,
} from './oracle.ts';

const ROUNDS = atNight(12, 50);
/** About the duration of a sync of a whole burst, and of a burst. */
const LATEST_MS = { sync: 15, burst: 200 } as const;
const WRITE_TIMEOUT_MS = 60_000;
const POD_NAMES = ['a', 'b', 'c', 'd'];
const BURSTS = bursts(POD_NAMES.length);
const MOMENTS = ['held', 'live', 'starting'] as const;
type Moment = (typeof MOMENTS)[number];

/** Frontends and backends when the agent was killed: `done` are already new, `missing` still old. */
interface Point {
  readonly moment: Moment;
  readonly done: number;
  readonly missing: number;
}

/** Part of the burst was programmed. */
const isInTheMiddle = ({ done, missing }: Point): boolean => done > 0 && missing > 0;

const summary = (points: readonly Point[]): string =>
  MOMENTS.map((moment) => {
    const own = points.filter((point) => point.moment === moment);
    const parts = own.map(({ done, missing }) => `${done}/${done + missing}`);
    const count = own.filter(isInTheMiddle).length;
    return `killed ${moment}: ${count} of ${own.length} in the middle: ${parts.join(' ')}`;
  }).join('\n');

const readiness = await prepareCluster();

describe.skipIf(!readiness.isReady)('killed at random points of a sync', () => {
  let plane: ControlPlane;
  let node: Awaited<ReturnType<typeof startOneNode>>;
  let agent: Launched;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    // No controllers, so that all slices are created by the test.
    plane = await startControlPlane(readiness.binaries, { controllers: 'none' });
    node = await startOneNode(POD_NAMES);
    await plane.connect({ namespace: node.instance.sandbox.namespace, index: 1 });
    await addNode(plane.api, { name: 'n1', addresses: ['192.168.77.1'], zone: 'a' });
    const [first] = fc.sample(BURSTS, { seed: SEED, numRuns: 1 });
    await makeServices(plane.api, node.servers, first!);
    agent = await started();
  });
  afterAll(async () => {
    await agent?.stop();
    node?.remove();
    await plane?.remove();
  });

  const launchAgent = (): Launched => {
    const { instance } = node;
    const kubeconfig = plane.kubeconfig({ identity: 'proxy', from: 'node' });
    return launch(node, [
      ...['run', '--kubeconfig', kubeconfig, '--hostname-override', instance.nodeName],
      ...['--cluster-cidr', POD_RANGES, '--cgroup-root', instance.cgroupRoot],
      ...ownPaths(instance),
    ]);
  };
  async function started(): Promise<Launched> {
    const launched = launchAgent();
    await launched.said('"msg":"ready"');
    return launched;
  }
  const meant = async (): Promise<Plan> => planOf(await listObjects(plane.api), 'n1');
  const wrong = (plan: Plan): readonly string[] => wrongIn(heldOf(node.instance.bpfRoot, plan));
  const kill = async (victim: Launched): Promise<void> => {
    victim.kill('SIGKILL');
    await victim.exited;
  };

  /** What changes, and when the agent is killed, as a fraction of the latest time. */
  interface Round {
    readonly change: Burst;
    readonly life: number;
  }
  const change = ({ change }: Round): Promise<void> => burst(plane.api, node.servers, change);

  /**
   * SIGKILL at a random moment of a sync that has begun. Blocks this process: a timer would be late by more
   * than a sync lasts.
   */
  const dieInSync = async (life: number, begin: () => Launched): Promise<void> => {
    let victim = agent;
    const hasBegun = isWrittenAfter(
      node.instance.bpfRoot,
      () => {
        victim = begin();
      },
      WRITE_TIMEOUT_MS,
    );
    spin(life * LATEST_MS.sync);
    await kill(victim);
    expect(hasBegun).toBe(true);
  };

  /** Each resolves once the agent is dead and the API server has answered the whole burst. */
  const deaths: Readonly<Record<Moment, (round: Round) => Promise<void>>> = {
    /** Paused while objects change, so that it has to apply all changes at once when resumed. */
    held: async (round) => {
      agent.kill('SIGSTOP');
      await change(round);
      await dieInSync(round.life, () => {
        agent.kill('SIGCONT');
        return agent;
      });
    },
    live: async (round) => {
      const changing = change(round);
      // Not a wait for a condition: the time of the kill is what varies.
      await pause(round.life * LATEST_MS.burst);
      await kill(agent);
      await changing;
    },
    /** Killed a second time while it catches up. */
    starting: async (round) => {
      await kill(agent);
      await change(round);
      await dieInSync(round.life, launchAgent);
    },
  };

  test(
    `${ROUNDS} times, and each time the kernel ends up with what a fresh list means`,
    async () => {
      const load = await node.client().startLoad(targetOf(1), { concurrency: 2 });
      const other = await node.client().startLoad(targetOf(2), { concurrency: 2 });
      const points: Point[] = [];
      let before = await meant();
      const round = fc.record({ change: BURSTS, life: fraction });
      const survives = fc.asyncProperty(round, async (one) => {
        const moment = MOMENTS[points.length % MOMENTS.length]!;
        await deaths[moment](one);
        const after = await meant();
        points.push({ moment, done: wrong(before).length, missing: wrong(after).length });
        agent = await started();
        await untilHolds(() => expect(wrong(after)).toEqual([]));
        before = after;
      });
      await fc.assert(survives, repeatable(ROUNDS));
      process.stdout.write(`${summary(points)}\n`);
      for (const { failures, connections } of [await load.stop(), await other.stop()]) {
        expect(failures).toEqual([]);
        expect(connections).toBeGreaterThan(ROUNDS * 10);
      }
      expect(points.filter(isInTheMiddle).length).toBeGreaterThan(ROUNDS / 5);
    },
    ANY_NUMBER_MS,
  );

  test('the kernel holds what an agent that was never killed writes, and no id is leaked', async () => {
    const shown = async () => {
      // What is no longer used is given back after a grace period.
      const tables = tablesBelow(node.instance.bpfRoot);
      await untilHolds(async () =>
        expect((await node.status()).tables).toEqual(expect.arrayContaining([...tables])),
      );
      const { problems, services } = await node.status();
      return { problems, tables, services, wrong: wrong(await meant()) };
    };
    const survived = await shown();
    await agent.stop();
    expect((await runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)])).code).toBe(0);
    agent = await started();
    expect(survived).toEqual(await shown());
    expect(survived).toMatchObject({ problems: [], wrong: [] });
  });

  test('deleted Services leave nothing behind', async () => {
    await removeServices(plane.api);
    await untilHolds(async () => expect(wrong(await meant())).toEqual([]));
  });
});
