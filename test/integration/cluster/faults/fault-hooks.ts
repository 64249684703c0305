// SPDX-License-Identifier: Apache-2.0
// The environment of one file of fault tests: created once, with an agent whose clock runs ten times as fast as
// real time. Before each test the agent watches every kind and traffic runs; after it no request may have failed.
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import type { prepareFaults } from '../programs/clock.ts';
import { countFromNow, type FaultCounts, untilFollowed } from './fault-counts.ts';
import { type FaultStage, startFaultStage } from './fault-stage.ts';

export interface FaultTest {
  readonly stage: FaultStage;
  /** Since the test began. */
  readonly counts: FaultCounts;
}

/**
 * Simulated seconds for each real one: what takes the agent half a minute takes three seconds. The API
 * server's bookmarks keep to real minutes, so a quiet watch is given up, and opened again, every 12 s.
 */
export const SPEED = 10;

/** Registers hooks: call it in `describe`, and read its fields only in tests. */
export function hookFaultStage(readiness: Awaited<ReturnType<typeof prepareFaults>>): FaultTest {
  let stage: FaultStage | undefined;
  let counts: FaultCounts | undefined;
  const made = <T>(thing: T | undefined): T => {
    if (thing === undefined) throw new Error('read before the hooks have run');
    return thing;
  };
  beforeAll(async () => {
    if (!readiness.isReady) return;
    stage = await startFaultStage(readiness.binaries, { speed: SPEED });
    await stage.startAgent();
  });
  afterAll(() => stage?.remove());
  beforeEach(async () => {
    const { status, startTraffic } = made(stage);
    await untilFollowed(status);
    counts = await countFromNow(status);
    await startTraffic();
  });
  afterEach(async () => {
    const { server, endTraffic } = made(stage);
    server.mend();
    await endTraffic();
  });
  return {
    get stage() {
      return made(stage);
    },
    get counts() {
      return made(counts);
    },
  };
}
