// SPDX-License-Identifier: Apache-2.0
// Why a list or watch came to its end, as one word each: for counters, logs and what to do next.
import { reasonOf } from '../../../errors.ts';

/**
 * `closed` the server ended the stream · `expired` 410: list again · `refused` an HTTP error · `status` an
 * ERROR event · `broken` the connection failed · `silent` no byte for too long · `undecodable` not JSON ·
 * `disorder` events out of order, or lost · `unsupported` no WatchList here · `late` no end of initial events ·
 * `confirm` time to confirm a suspicious list · `replaced` another cluster answers · `stopped` by us.
 */
export const END_REASONS = [
  'closed',
  'expired',
  'refused',
  'status',
  'broken',
  'silent',
  'undecodable',
  'disorder',
  'unsupported',
  'late',
  'confirm',
  'replaced',
  'stopped',
] as const;
export type EndReason = (typeof END_REASONS)[number];

/** Thrown, or the reason of an abort, to end a list or watch for a known reason. */
export class WatchError extends Error {
  readonly reason: EndReason;
  readonly retryAfterMs: number;
  /** HTTP status, for `refused`. */
  readonly status: number | undefined;

  constructor(
    reason: EndReason,
    message: string,
    facts: Partial<Pick<WatchError, 'retryAfterMs' | 'status'>> = {},
  ) {
    super(message);
    this.reason = reason;
    this.retryAfterMs = facts.retryAfterMs ?? 0;
    this.status = facts.status;
  }
}

/** An answer that is no 2xx. */
export class ApiError extends Error {
  /** HTTP status. */
  readonly status: number;
  readonly retryAfterMs: number;
  /** The server is older than the resourceVersion asked for: it was restored, or is another one. */
  readonly isTooLargeVersion: boolean;

  constructor(
    message: string,
    facts: Pick<ApiError, 'status' | 'retryAfterMs' | 'isTooLargeVersion'>,
  ) {
    super(message);
    this.status = facts.status;
    this.retryAfterMs = facts.retryAfterMs;
    this.isTooLargeVersion = facts.isTooLargeVersion;
  }
}

/** What was thrown while a request ran -> why it ended. An abort tells its own reason. */
export function watchErrorOf(error: unknown, signal: AbortSignal): WatchError {
  if (signal.aborted && signal.reason instanceof WatchError) return signal.reason;
  if (error instanceof WatchError) return error;
  if (error instanceof ApiError) {
    const reason = error.status === 410 ? 'expired' : 'refused';
    return new WatchError(reason, error.message, error);
  }
  if (error instanceof SyntaxError || error instanceof RangeError) {
    return new WatchError('undecodable', error.message);
  }
  return new WatchError('broken', causeOf(error));
}

/** Network errors hide their reason one level down. */
function causeOf(error: unknown): string {
  const inner = error instanceof Error ? error.cause : undefined;
  if (error instanceof AggregateError && error.message === '') {
    return error.errors.map(reasonOf).join('; ');
  }
  return inner instanceof Error ? `${reasonOf(error)}: ${reasonOf(inner)}` : reasonOf(error);
}
