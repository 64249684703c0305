// SPDX-License-Identifier: Apache-2.0
// What syncs did, in the log: at once while little happens, and once a second for all of it while much
// does. At 100 changes a second a line for each costs more than some of them.
import type { Logger } from '../log.ts';

export interface SyncLog {
  /** One sync that wrote something and failed nowhere. */
  done(services: number, applied: number, elapsedMs: number): void;
  /** Says what was not said yet. */
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

  const tell = (): void => {
    if (sum.syncs === 0) return;
    const { elapsedMs, ...counts } = sum;
    sum = NOTHING;
    log.info({ ...counts, durationMs: Math.round(elapsedMs * 1000) / 1000 }, 'sync done');
  };

  /** Silent for a while after each line; a line that was due then comes at its end. */
  const rest = (): void => {
    timer = setTimeout(() => {
      timer = undefined;
      if (sum.syncs === 0) return;
      tell();
      rest();
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
      tell();
      rest();
    },
    close() {
      clearTimeout(timer);
      timer = undefined;
      tell();
    },
  };
}
