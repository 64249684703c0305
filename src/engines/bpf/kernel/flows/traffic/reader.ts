// SPDX-License-Identifier: Apache-2.0
// The totals of all connections, read in the background.
import { setTimeout as delay } from 'node:timers/promises';
import { reasonOf } from '../../../../../errors.ts';
import type { Logger } from '../../../../../log.ts';
import {
  neverLess,
  readTotals,
  type Totals,
  type TotalsTables,
} from '../../../flows/traffic/totals.ts';

export interface TotalsReader {
  /** Those of the last reading, and starts a new one if that is old; undefined before the first has ended. */
  read(): Totals | undefined;
  /** As read(), but waits a moment for the reading that runs. */
  latest(): Promise<Totals | undefined>;
  /** The reading that runs ends early. */
  close(): void;
}

/** Of an earlier reader over the same frontends, and for the next one: what is shown is never less. */
export interface LastTotals {
  read?: Totals | undefined;
}

/** A reading takes a third of a second of CPU for a million connections: no more than one in this time. */
const READING_INTERVAL_MS = 5_000;
/** Enough for some 500,000 connections; a command that waits longer would seem to hang. */
const MAX_WAIT_MS = 300;

interface ReaderOptions {
  readonly intervalMs?: number;
  readonly last?: LastTotals | undefined;
}

/** Reads in turns of the event loop, a step in each. After a reading that fails the last one is shown until one succeeds. */
export function createTotalsReader(
  tables: TotalsTables,
  log: Pick<Logger, 'warn'>,
  { intervalMs = READING_INTERVAL_MS, last = {} }: ReaderOptions = {},
): TotalsReader {
  let startedAt = Number.NEGATIVE_INFINITY;
  let isReading = false;
  let hasFailed = false;
  let isClosed = false;
  let tellEnd: () => void = () => undefined;
  let ended = Promise.resolve();
  const end = (): void => {
    isReading = false;
    tellEnd();
  };
  const step = (reading: Generator<undefined, Totals>): void => {
    if (isClosed) return;
    try {
      const { done, value } = reading.next();
      if (done !== true) {
        setImmediate(step, reading);
        return;
      }
      last.read = neverLess(last.read, value);
      hasFailed = false;
    } catch (error) {
      if (!hasFailed)
        log.warn({ reason: reasonOf(error) }, 'the totals of connections cannot be read');
      hasFailed = true;
    }
    end();
  };
  const read = (): Totals | undefined => {
    if (!isReading && !isClosed && performance.now() - startedAt >= intervalMs) {
      isReading = true;
      startedAt = performance.now();
      ended = new Promise((resolve) => {
        tellEnd = resolve;
      });
      step(readTotals(tables));
    }
    return last.read;
  };
  return {
    read,
    async latest() {
      read();
      const timer = new AbortController();
      const timeout = delay(MAX_WAIT_MS, undefined, { signal: timer.signal }).catch(
        () => undefined,
      );
      await Promise.race([ended, timeout]);
      timer.abort();
      return last.read;
    },
    close() {
      isClosed = true;
      tellEnd();
    },
  };
}
