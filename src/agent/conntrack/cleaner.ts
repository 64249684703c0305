// SPDX-License-Identifier: Apache-2.0
// Deletes conntrack entries of UDP and SCTP flows whose backend is gone, after each sync that may have made some, and
// after the first one. No sync waits for it. What fails is retried with exponential backoff, and said once.

import { reasonOf } from '../../errors.ts';
import { createBackoff } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Logger } from '../../log.ts';
import type { Family } from '../../model/types.ts';
import {
  type FormerFrontend,
  formerScope,
  joinedScopes,
  portsOf,
  type StaleScope,
  staleFlows,
  staleScope,
} from '../../plan/conntrack/stale-flows.ts';
import type { deleteConntrack, readConntrack } from '../../sys/conntrack/conntrack-table.ts';
import type { SyncFacts } from '../agent.ts';

export interface ConntrackCleanerParts {
  readonly read: typeof readConntrack;
  readonly remove: typeof deleteConntrack;
  /** All addresses of this node, canonical: where its NodePorts answer. */
  readonly localAddresses: () => readonly string[];
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn' | 'debug'>;
  readonly onCleaned: (cleaned: Cleaned) => void;
}

/** One pass over the table of a family. */
export interface Cleaned {
  readonly family: Family;
  readonly durationMs: number;
  readonly deleted: number;
}

/** The table is read for at most a tenth of the time, but never later than this after a change. */
const PAUSE = { perPass: 10, leastMs: 1_000, mostMs: 20_000 };
const RETRY = { firstMs: 1_000, maxMs: 60_000, jitter: 'equal' } as const;

export function createConntrackCleaner(parts: ConntrackCleanerParts): ConntrackCleaner {
  return new ConntrackCleaner(parts);
}

export class ConntrackCleaner {
  readonly #parts: ConntrackCleanerParts;
  readonly #backoff;
  #pending: StaleScope = new Map();
  #former: readonly FormerFrontend[] = [];
  #isWaiting = false;
  #cancel: () => void = () => undefined;
  #isClosed = false;
  /** As it was logged; undefined: the last pass succeeded. */
  #failure: string | undefined;

  constructor(parts: ConntrackCleanerParts) {
    this.#parts = parts;
    this.#backoff = createBackoff(RETRY, () => parts.clock.random());
  }

  /** What an earlier agent has programmed; before the first sync. */
  adopt(former: readonly FormerFrontend[]): void {
    this.#former = former;
  }

  synced({ changes, isFull, plan }: Pick<SyncFacts, 'changes' | 'isFull' | 'plan'>): void {
    const former = isFull ? this.#former : [];
    if (isFull) this.#former = [];
    const scope = joinedScopes(
      formerScope(former, plan.services),
      staleScope([...changes.values()]),
    );
    if (scope.size === 0) return;
    this.#pending = joinedScopes(this.#pending, scope);
    this.#runIn(0);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  /** Unless a pass is running, or its pause: what is pending comes after it. */
  #runIn(delayMs: number): void {
    if (this.#isWaiting || this.#isClosed) return;
    this.#isWaiting = true;
    this.#cancel = this.#parts.clock.after(delayMs, () => void this.#run());
  }

  async #run(): Promise<void> {
    const { clock } = this.#parts;
    const scope = this.#pending;
    this.#pending = new Map();
    const startedMs = clock.monotonicMs();
    const isDone = scope.size === 0 || (await this.#clean(scope));
    if (this.#isClosed) return;
    this.#isWaiting = false;
    if (isDone) this.#backoff.reset();
    else this.#pending = joinedScopes(scope, this.#pending);
    const restMs = PAUSE.perPass * (clock.monotonicMs() - startedMs);
    const pauseMs = Math.min(Math.max(restMs, PAUSE.leastMs), PAUSE.mostMs);
    if (scope.size > 0) this.#runIn(isDone ? pauseMs : this.#backoff.nextMs(pauseMs));
  }

  /** False: all of it has to be repeated. */
  async #clean(scope: StaleScope): Promise<boolean> {
    const { log } = this.#parts;
    try {
      let isWhole = true;
      for (const [family, wants] of portsOf(scope)) {
        isWhole = (await this.#cleanFamily(scope, family, wants)) && isWhole;
      }
      if (this.#failure !== undefined) log.info('stale conntrack entries are deleted again');
      this.#failure = undefined;
      return isWhole;
    } catch (error) {
      this.#noteFailure(error);
      return false;
    }
  }

  async #cleanFamily(
    scope: StaleScope,
    family: Family,
    wants: Parameters<typeof readConntrack>[0]['wants'],
  ): Promise<boolean> {
    const { read, remove, clock, log, onCleaned } = this.#parts;
    const local = new Set(this.#parts.localAddresses());
    const startedMs = clock.monotonicMs();
    let deleted = 0;
    const { entries, isWhole } = await read({ family, wants }, async (found) => {
      if (!this.#isClosed) deleted += await remove(staleFlows(scope, found, local));
    });
    if (this.#isClosed) return true;
    const durationMs = clock.monotonicMs() - startedMs;
    onCleaned({ family, durationMs, deleted });
    const fields = { family, deleted, entries, durationMs: Math.round(durationMs) };
    if (!isWhole) log.info(fields, 'conntrack table read in part, will read it again');
    else if (deleted > 0) log.info(fields, 'stale conntrack entries deleted');
    else log.debug(fields, 'no stale conntrack entries');
    return isWhole;
  }

  #noteFailure(error: unknown): void {
    if (this.#isClosed) return;
    const failure = conntrackFailure(error);
    if (failure.reason === this.#failure) return;
    this.#failure = failure.reason;
    this.#parts.log.warn(failure, 'stale conntrack entries cannot be deleted, will retry');
  }
}

interface ConntrackFailure {
  readonly reason: string;
  readonly effect: string;
}

const EFFECT = 'clients of UDP Services may keep sending to a backend that is gone';
const NO_MODULE =
  'this kernel has no nf_conntrack_netlink: if it tracks connections, run `modprobe nf_conntrack_netlink` on the node';

/** By the errno's name. */
const REASONS: Readonly<Record<string, string>> = {
  EPERM:
    'the kernel refuses to list connections: run the agent with CAP_NET_ADMIN in the network namespace that it serves',
  // Of the socket, without nfnetlink; of a request, without the module.
  EPROTONOSUPPORT: NO_MODULE,
  EINVAL: NO_MODULE,
  EOPNOTSUPP: NO_MODULE,
};

function conntrackFailure(error: unknown): ConntrackFailure {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return { reason: REASONS[code] ?? reasonOf(error), effect: EFFECT };
}
