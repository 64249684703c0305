// SPDX-License-Identifier: Apache-2.0
// Logs syncs: the first one at once, those within the following second as one line. At 100 changes a second
// one line per sync can cost more than the sync itself.
import type { Logger } from '../log.ts';

export interface SyncLog {
  /** A sync that wrote entries and had no failures. */
  done(services: number, applied: number, elapsedMs: number): void;
  /** Logs what has not been logged yet. */
  close(): void;
}

const INTERVAL_MS = 1_000;

interface Sum {
  readonly syncs: number;
  readonly services: number;
  readonly applied: number;
  readonly elapsedMs: number;
}

const NOTHING: Sum = { syncs: 0, services: 0, applied: 0, elapsedMs: 0 };

export function createSyncLog(log: Pick<Logger, 'info'>): SyncLog {
  let sum = NOTHING;
  let timer: NodeJS.Timeout | undefined;

  const logSum = (): void => {
    if (sum.syncs === 0) return;
    const { elapsedMs, ...counts } = sum;
    sum = NOTHING;
    log.info({ ...counts, durationMs: Math.round(elapsedMs * 1000) / 1000 }, 'sync done');
  };

  /** Delays the next line; what accumulates is logged at the end of the interval. */
  const delayNext = (): void => {
    timer = setTimeout(() => {
      timer = undefined;
      if (sum.syncs === 0) return;
      logSum();
      delayNext();
    }, INTERVAL_MS);
    timer.unref();
  };

  return {
    done(services, applied, elapsedMs) {
      sum = {
        syncs: sum.syncs + 1,
        services: sum.services + services,
        applied: sum.applied + applied,
        elapsedMs: sum.elapsedMs + elapsedMs,
      };
      if (timer !== undefined) return;
      logSum();
      delayNext();
    },
    close() {
      clearTimeout(timer);
      timer = undefined;
      logSum();
    },
  };
}
