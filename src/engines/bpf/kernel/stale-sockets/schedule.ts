// SPDX-License-Identifier: Apache-2.0
// When passes over the stale sockets run: soon after a sync that made backends gone whose sockets are destroyed, several
// syncs together, and once more a second later, which finds the sockets whose connect() was under way. As long as sockets
// are refused, passes look whether they are still there; what could not be searched is retried. One pass at a time; what
// fails is logged once and never affects a sync.
import { reasonOf } from '../../../../errors.ts';
import type { Logger } from '../../../../log.ts';
import type { DestroyedSockets, LeftSockets } from '../../../snapshot.ts';
import { NONE_STALE, type PassReport } from '../../stale-sockets/pass.ts';

/** Collects the syncs of a rolling update. */
export const BATCH_MS = 50;
export const SECOND_LOOK_MS = 1_000;
/** While sockets are refused, each datagram to an address that is no frontend costs a look-up; what failed is retried. */
export const LATER_LOOK_MS = 30_000;

const FAILED: PassReport = { ...NONE_STALE, isSearched: false };

export interface Schedule {
  request(): void;
  counts(): {
    readonly destroyed: readonly DestroyedSockets[];
    readonly connected: number;
    readonly served: number;
    readonly waiting: number;
    readonly refused: number;
    readonly left: readonly LeftSockets[];
  };
  /** A running pass ends by itself; none follows. */
  close(): void;
}

export interface ScheduleParts {
  /** Never called while it runs. */
  readonly runPass: () => Promise<PassReport>;
  /** Resolves after every program that runs now has ended: what it recorded of a gone backend is then written. */
  readonly waitGracePeriod: () => Promise<void>;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

export function createSchedule({ runPass, waitGracePeriod, log }: ScheduleParts): Schedule {
  const tally = createTally(log);
  let timer: NodeJS.Timeout | undefined;
  let dueMs = 0;
  let isRunning = false;
  let isRequested = false;
  let isClosed = false;

  /** Unless one is due sooner. */
  const runIn = (delayMs: number): void => {
    const wantedMs = performance.now() + delayMs;
    if (isClosed || (timer !== undefined && dueMs <= wantedMs)) return;
    clearTimeout(timer);
    dueMs = wantedMs;
    timer = setTimeout(() => void run(), delayMs);
  };

  const request = (): void => {
    isRequested = true;
    if (!isRunning) runIn(BATCH_MS);
  };

  /** undefined: it was not completed. */
  const pass = async (): Promise<PassReport | undefined> => {
    const startedAt = performance.now();
    try {
      await waitGracePeriod();
      if (isClosed) return undefined;
      const report = await runPass();
      if (isClosed) return undefined;
      tally.add(report, performance.now() - startedAt);
      return report;
    } catch (error) {
      if (!isClosed) tally.failed(reasonOf(error));
      return undefined;
    }
  };

  const run = async (): Promise<void> => {
    const isSecondLook = !isRequested;
    timer = undefined;
    isRequested = false;
    isRunning = true;
    const { hasMore, served, waiting, refused, isSearched } = (await pass()) ?? FAILED;
    const isNamed = served + waiting + refused > 0;
    isRunning = false;
    if (isRequested || hasMore) request();
    else if (!isSecondLook) runIn(SECOND_LOOK_MS);
    else if (isNamed || !isSearched) runIn(LATER_LOOK_MS);
  };

  return {
    request,
    counts: tally.counts,
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

/** Sums what passes destroyed; logs that, and what they left, the latter only when its reasons change. */
function createTally(log: ScheduleParts['log']) {
  const destroyed = new Map<string, DestroyedSockets>();
  let left: readonly LeftSockets[] = [];
  let connected = 0;
  let { served, waiting, refused } = NONE_STALE;
  let logged = '';

  const note = (): void => {
    const text = left
      .map(({ reason }) => reason)
      .sort()
      .join('\n');
    if (text === logged) return;
    logged = text;
    for (const { reason, count } of left) {
      log.warn({ reason, sockets: count }, 'stale sockets could not be destroyed');
    }
  };

  return {
    counts: () => ({
      ...{ destroyed: [...destroyed.values()], connected, served, waiting, refused, left },
    }),
    add(report: PassReport, elapsedMs: number): void {
      for (const { protocol, family, count } of report.destroyed) {
        const key = `${protocol} ${family}`;
        const sum = (destroyed.get(key)?.count ?? 0) + count;
        destroyed.set(key, { protocol, family, count: sum });
        const durationMs = Math.round(elapsedMs);
        log.info({ protocol, family, sockets: count, durationMs }, 'stale sockets destroyed');
      }
      if (report.connected > 0) {
        connected += report.connected;
        const durationMs = Math.round(elapsedMs);
        log.info({ sockets: report.connected, durationMs }, 'stale sockets connected again');
      }
      if (report.served > served) {
        log.info(
          { sockets: report.served },
          'datagrams of stale sockets of pods go to another backend as packets',
        );
      }
      if (report.refused > refused) {
        log.info(
          { sockets: report.refused },
          'stale sockets of pods are refused with their next datagram',
        );
      }
      ({ served, waiting, refused } = report);
      left = report.left;
      note();
    },
    /** The pass as a whole: how many sockets are stale is not known. */
    failed(reason: string): void {
      left = [{ reason, count: 0 }];
      note();
    },
  };
}
