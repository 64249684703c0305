// SPDX-License-Identifier: Apache-2.0
// A listener that is retried every 5 s while its port is in use, as in kube-proxy unless
// bindAddressHardFail is set (serveHealthz, serveMetrics in cmd/kube-proxy/app/server.go).
import { FairleadError, reasonOf } from '../../errors.ts';
import { type Listen, type Listener, type ListenOptions, listenOnce } from './listen.ts';

const RETRY_MS = 5_000;

/** Runs something later; the result cancels it. */
export type Schedule = (run: () => void, afterMs: number) => () => void;

export interface RetryOptions extends ListenOptions {
  /** For messages: `healthz`. */
  readonly name: string;
  /** bindAddressHardFail: do not retry. */
  readonly isFatal: boolean;
  /** Called when a bind fails, once for each reason. */
  readonly onRefused: (message: string) => void;
  /** Called once it listens. */
  readonly onListening?: (port: number) => void;
}

export const later: Schedule = (run, afterMs) => {
  const timer = setTimeout(run, afterMs);
  return () => clearTimeout(timer);
};

/** Resolves after the first attempt, successful or not. Rejects with BAD_OPTION only if `isFatal`. */
export async function listenWithRetry(
  options: RetryOptions,
  listen: Listen = listenOnce,
  schedule: Schedule = later,
): Promise<RetryingListener> {
  const retrying = new RetryingListener(options, listen, schedule);
  await retrying.try();
  return retrying;
}

export class RetryingListener {
  readonly #options: RetryOptions;
  readonly #listen: Listen;
  readonly #schedule: Schedule;
  #listener: Listener | undefined;
  #lastRefusal = '';
  #cancel: () => void = () => {};
  #trying: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: RetryOptions, listen: Listen, schedule: Schedule) {
    this.#options = options;
    this.#listen = listen;
    this.#schedule = schedule;
  }

  /** undefined while it does not listen. */
  port(): number | undefined {
    return this.#listener?.port;
  }

  try(): Promise<void> {
    this.#trying = this.#tryOnce();
    return this.#trying;
  }

  /** Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel();
    // A bind in flight must not outlive the server.
    await this.#trying.catch(() => {});
    await this.#listener?.close();
    this.#listener = undefined;
  }

  async #tryOnce(): Promise<void> {
    const { isFatal, onRefused, onListening } = this.#options;
    try {
      this.#listener = await this.#listen(this.#options);
    } catch (error) {
      if (isFatal) throw new FairleadError('BAD_OPTION', this.#message(error));
      if (this.#isClosed) return;
      const message = `${this.#message(error)}, retrying every ${RETRY_MS / 1000} s`;
      if (message !== this.#lastRefusal) onRefused(message);
      this.#lastRefusal = message;
      this.#cancel = this.#schedule(() => void this.try(), RETRY_MS);
      return;
    }
    this.#lastRefusal = '';
    if (!this.#isClosed) onListening?.(this.#listener.port);
  }

  #message(error: unknown): string {
    return `${this.#options.name} server cannot listen on ${reasonOf(error)}`;
  }
}
