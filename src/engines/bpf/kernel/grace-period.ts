// SPDX-License-Identifier: Apache-2.0
// Waits for an RCU grace period, after which no program holds the result of an earlier lookup. A wait that
// fails is logged and retried: otherwise the agent would have to stop, or reuse ids that programs
// still use.
import { reasonOf } from '../../../errors.ts';
import type { Logger } from '../../../log.ts';

export interface GracePeriods {
  /** Resolves after a full grace period, or when closed. Never rejects. */
  wait(): Promise<void>;
  close(): void;
}

const RETRY_MS = 1_000;

/** @param waitOnce resolves after every program that runs now has ended */
export function createGracePeriods(
  waitOnce: () => Promise<void>,
  log: Pick<Logger, 'info' | 'warn'>,
): GracePeriods {
  let failuresInRow = 0;
  let isClosed = false;
  const stopPauses = new Set<() => void>();

  const pause = (): Promise<void> =>
    new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        stopPauses.delete(end);
        resolve();
      };
      const timer = setTimeout(end, RETRY_MS);
      stopPauses.add(end);
    });

  const failed = (error: unknown): void => {
    failuresInRow++;
    if (failuresInRow > 1) return;
    log.warn({ reason: reasonOf(error) }, 'waiting for a grace period failed, will retry');
  };

  return {
    async wait() {
      while (!isClosed) {
        try {
          await waitOnce();
          if (failuresInRow > 0)
            log.info({ failures: failuresInRow }, 'waiting for a grace period works again');
          failuresInRow = 0;
          return;
        } catch (error) {
          if (isClosed) return;
          failed(error);
          await pause();
        }
      }
    },
    close() {
      isClosed = true;
      for (const stop of stopPauses) stop();
    },
  };
}
