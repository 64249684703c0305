// SPDX-License-Identifier: Apache-2.0
// A dataplane whose packets rules may serve in its place, and give back, while the agent runs: the plan, the sources and
// the maps stay as they are. What one is to serve from now on stays with the other until it is programmed (router.ts).
import type { ComposedDataplane, Dataplane } from '../dataplane.ts';
import type { Fallback } from '../snapshot.ts';
import { Progress } from './progress.ts';
import { createRouter } from './router.ts';
import { createTurns } from './turns.ts';

/** Rules, and what is said of why they serve. */
export interface InPlace {
  readonly rules: Dataplane;
  readonly fallback: Fallback;
}

/**
 * @param first serves packets, and sockets
 * @param openRules undefined: rules cannot be written; it says why
 */
export function createMoving(
  first: Dataplane,
  openRules: (fallback: Fallback) => Promise<InPlace | undefined>,
): ComposedDataplane {
  const turns = createTurns();
  const moves = createTurns();
  const progress = new Progress();
  let rules: Dataplane | undefined;
  let isClosed = false;
  let onRoom = (): void => undefined;
  let onLoss = (): void => undefined;

  const composed = (fallback?: Fallback): ComposedDataplane => {
    first.servePackets?.(rules === undefined);
    progress.serveAnew();
    const router = createRouter(rules === undefined ? [first] : [first, rules], fallback, progress);
    router.onRoom(() => onRoom());
    router.onLoss?.(() => onLoss());
    return router;
  };
  let current = composed();
  const toRules = async (reason: string): Promise<boolean> => {
    const opened = await openRules({ what: 'packets', reason });
    if (opened === undefined) return false;
    return turns(async () => {
      if (isClosed) {
        opened.rules.close();
        return false;
      }
      rules?.close();
      rules = opened.rules;
      current = composed(opened.fallback);
      return true;
    });
  };
  /** What is written of the rules stays until the hand-over of engines removes it. */
  const back = (): Promise<boolean> =>
    turns(async () => {
      if (isClosed) return false;
      rules?.close();
      rules = undefined;
      current = composed();
      return true;
    });

  return {
    get capabilities() {
      return current.capabilities;
    },
    get dataplanes() {
      return current.dataplanes;
    },
    get installation() {
      return current.installation;
    },
    movePackets: (reason) => moves(() => (reason === undefined ? back() : toRules(reason))),
    sync: (...asked) => turns(() => current.sync(...asked)),
    audit: (...asked) => turns(() => current.audit(...asked)),
    held: () => turns(() => current.held()),
    heldDatagrams: () => turns(() => current.heldDatagrams?.() ?? current.held()),
    snapshot: () => current.snapshot(),
    counters: () => current.counters(),
    devices: () => current.devices(),
    hadDirectReturn: () => current.hadDirectReturn(),
    leaveNewPackets: (isLeft) => current.leaveNewPackets(isLeft),
    onRoom: (listener) => {
      onRoom = listener;
    },
    onLoss: (listener) => {
      onLoss = listener;
    },
    close: () => {
      isClosed = true;
      current.close();
    },
  };
}
