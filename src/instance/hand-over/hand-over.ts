// SPDX-License-Identifier: Apache-2.0
// Takes over from the engine that an earlier agent of this instance ran: after the first sync that is complete, then
// again until nothing of it is left.

import type { SyncFacts } from '../../agent/agent.ts';
import type { Predecessor, PredecessorFacts } from '../../engines/predecessor.ts';
import { reasonOf } from '../../errors.ts';
import { createBackoff } from '../../lib/backoff.ts';
import type { Logger } from '../../log.ts';

export interface HandOver {
  synced(facts: Pick<SyncFacts, 'isFull' | 'isComplete'>): void;
  close(): void;
}

/** How often it is looked whether the connections of the other engine have ended; a step that fails is retried sooner, at first. */
const LOOK_MS = 30_000;
const FIRST_RETRY_MS = 500;

export function createHandOver(
  predecessor: Predecessor,
  log: Pick<Logger, 'info' | 'warn'>,
  lookMs = LOOK_MS,
): HandOver {
  const backoff = createBackoff(
    { firstMs: Math.min(FIRST_RETRY_MS, lookMs), maxMs: lookMs, jitter: 'equal' },
    Math.random,
  );
  const done: Done = { isStopDue: false, isKeptSaid: false };
  let hasFull = false;
  let hasBegun = false;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;
  const run = async (): Promise<void> => {
    timer = undefined;
    const step = await proceed(predecessor, log, done).catch((error: unknown) => {
      const fields = { engine: predecessor.engine, reason: reasonOf(error) };
      log.warn(fields, 'the other engine is not removed yet, will retry');
      return 'failed' as const;
    });
    if (step === 'done' || isClosed) return;
    if (step !== 'failed') backoff.reset();
    timer = setTimeout(() => void run(), step === 'failed' ? backoff.nextMs() : lookMs);
    timer.unref();
  };
  return {
    synced({ isFull, isComplete }) {
      hasFull ||= isFull;
      if (hasBegun || !hasFull || !isComplete || isClosed) return;
      hasBegun = true;
      void handAffinity(predecessor, log).then(() => (isClosed ? undefined : run()));
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

/** Before the other engine forgets it. A client that is not handed over is given an endpoint anew. */
async function handAffinity(
  { engine, handAffinity: hand }: Predecessor,
  log: Pick<Logger, 'info' | 'warn'>,
): Promise<void> {
  try {
    const clients = (await hand?.()) ?? 0;
    if (clients > 0) log.info({ engine, clients }, 'session affinity adopted');
  } catch (error) {
    const fields = { engine, reason: reasonOf(error) };
    log.warn(fields, 'session affinity not adopted, clients get endpoints anew');
  }
}

/** What one try leaves to the next: the engine looks as if it had stopped when half of what that takes has failed. */
interface Done {
  isStopDue: boolean;
  isKeptSaid: boolean;
}

/** Until a step has to be waited for. */
async function proceed(
  predecessor: Predecessor,
  log: Pick<Logger, 'info' | 'warn'>,
  done: Done,
): Promise<Step> {
  const { engine } = predecessor;
  for (let hasStopped = false; ; ) {
    const facts = await predecessor.look();
    const step = nextStep(true, facts);
    if (step !== 'done' && !hasStopped && (step === 'stop serving' || done.isStopDue)) {
      done.isStopDue = true;
      await predecessor.stopServing();
      done.isStopDue = false;
      hasStopped = true;
      log.info({ engine }, 'the other engine serves no new connections any more');
      continue;
    }
    // Nothing may be left of it once it has stopped.
    if (step === 'remove' || (step === 'done' && hasStopped)) {
      if (step === 'remove') await predecessor.remove();
      log.info({ engine }, 'the other engine is removed');
      return 'done';
    }
    if (step === 'done' || done.isKeptSaid) return step;
    done.isKeptSaid = true;
    const { connections } = facts;
    log.info({ engine, connections }, 'keeping the other engine until its connections end');
    return step;
  }
}

// The next step from one engine to the other. Pure. The new one has programmed everything before the old one stops to
// serve, and the old one goes when its last connection has ended. Each step can be taken again, so that an agent that
// was killed between two of them is continued by the next one.
type Step = 'wait' | 'stop serving' | 'remove' | 'keep' | 'done';

/** @param isComplete every Service is programmed by the engine of this agent */
export function nextStep(isComplete: boolean, facts: PredecessorFacts): Step {
  if (!facts.isLeft) return 'done';
  if (!isComplete) return 'wait';
  if (facts.isServing) return 'stop serving';
  return facts.connections === 0 ? 'remove' : 'keep';
}
