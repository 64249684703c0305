// SPDX-License-Identifier: Apache-2.0
// An agent's syncs for a recorder, without an agent: objects become plans, and plans are programmed.
import type { HistoryRecord } from '../../../../src/history/records.ts';
import { timelineOf } from '../../../../src/history/timeline.ts';
import { readSegments } from '../../../../src/instance/history/files.ts';
import { Recorder, type RecorderParts } from '../../../../src/instance/history/recorder.ts';
import { Ring } from '../../../../src/instance/history/ring.ts';
import type { ObjectChange } from '../../../../src/model/types.ts';
import { createPlanner } from '../../../support/plan/planner.ts';
import { SETTINGS } from '../../plan/support.ts';
import { FakeClock } from '../../source/apiserver/support/fake-clock.ts';

export const PORT = 'http/TCP/IPv4';

export interface Simulated {
  readonly recorder: Recorder;
  readonly clock: FakeClock;
  readonly warned: string[];
  /** The objects change, and the change is programmed. */
  change(...changes: readonly ObjectChange[]): void;
  /** The objects change, and the kernel refuses it. */
  refuse(reason: string): void;
  /** All that was queued is written, or has failed. */
  written(): Promise<void>;
}

export function simulate(
  dir: string,
  {
    maxBytes = 2 ** 20,
    ring = new Ring(dir, maxBytes),
  }: { readonly maxBytes?: number; readonly ring?: RecorderParts['ring'] } = {},
): Simulated {
  const clock = new FakeClock();
  const warned: string[] = [];
  const planner = createPlanner(SETTINGS);
  let isFirst = true;
  const busy = new Set<Promise<unknown>>();
  const watched = <T extends unknown[], R>(work: (...args: T) => Promise<R>) => {
    return (...args: T): Promise<R> => {
      const promise = work(...args);
      const done = promise.then(
        () => undefined,
        () => undefined,
      );
      busy.add(done);
      void done.then(() => busy.delete(done));
      return promise;
    };
  };
  const recorder = new Recorder({
    ring: {
      open: watched(() => ring.open()),
      append: watched((bytes: Buffer, isState?: boolean) => ring.append(bytes, isState)),
      next: watched(() => ring.next()),
      abandon: watched(() => ring.abandon()),
      isFull: () => ring.isFull(),
      bytes: () => ring.bytes(),
    },
    ...{ dir, clock },
    identity: { boot: 'b', version: '1', node: 'n1' },
    uptimeMs: () => clock.monotonicMs(),
    log: {
      info: () => undefined,
      warn: (_fields: unknown, text: string) => void warned.push(text),
    } as never,
  });
  const sync = (changes: readonly ObjectChange[], failed: readonly object[] = []): void => {
    recorder.arrived(changes);
    const { plan, previous, changed } = planner.apply(changes);
    recorder.planned(plan);
    recorder.synced({
      plan,
      report: { applied: 1, failed: failed as never, elapsedMs: 1 },
      services: changed,
      changes: new Map(
        changed.map((key) => [key, { before: previous.get(key), after: plan.services.get(key) }]),
      ),
      isFull: isFirst,
      isComplete: failed.length === 0,
    });
    isFirst = false;
  };
  return {
    ...{ recorder, clock, warned },
    change: (...changes) => sync(changes),
    refuse: (reason) => sync([], [{ service: 'default/web', reason }]),
    written: async () => {
      // A write leads to the next one within a few turns of the event loop.
      for (let quiet = 0; quiet < 20; quiet += 1) {
        await new Promise(setImmediate);
        if (busy.size === 0) continue;
        await Promise.all(busy);
        quiet = 0;
      }
    },
  };
}

export const recordsIn = (dir: string): readonly HistoryRecord[] =>
  [...readSegments(dir)].flatMap((records) => [...records]);

export const backendsIn = (dir: string, service = 'default/web'): readonly string[] | undefined =>
  timelineOf(readSegments(dir)).services.get(service)?.state[PORT]?.c;
