// SPDX-License-Identifier: Apache-2.0
// Keeps the flowtable on the chosen devices as they come and go. What fails is told, and retried: Services are served
// without it, too.
import { createBackoff } from '../../../lib/backoff.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import type { NetworkFollower } from '../../../sys/netlink/network.ts';
import { chosenDevices } from './choose.ts';
import { addition, creation, removal, textOf } from './script.ts';

export interface OffloadParts {
  readonly network: Pick<NetworkFollower, 'current' | 'listen'>;
  /** --nftables-offload */
  readonly patterns: readonly string[];
  /** One transaction. @returns why it failed */
  readonly write: (script: string) => Promise<string | undefined>;
  readonly isThere: () => boolean;
  /** How often it is looked whether somebody has removed the table. */
  readonly periodMs: number;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

export interface Offload {
  /** That were committed since the start. */
  transactions(): number;
  /** The table stays. Idempotent. */
  close(): void;
}

export const followOffload = (parts: OffloadParts): Offload => new OffloadFollower(parts);

/** Devices of one pod, or of many, come together. */
const TOGETHER_MS = 20;

class OffloadFollower implements Offload {
  readonly #parts: OffloadParts;
  readonly #backoff;
  readonly #stopListening: () => void;
  /** Names by ifindex; undefined: the table is to be written as a whole. */
  #held: ReadonlyMap<number, string> | undefined;
  #transactions = 0;
  #reason: string | undefined;
  #isWriting = false;
  #isClosed = false;
  #cancel: () => void = () => undefined;
  #cancelLook: () => void = () => undefined;

  constructor(parts: OffloadParts) {
    this.#parts = parts;
    const limits = { firstMs: 200, maxMs: 30_000, jitter: 'equal' } as const;
    this.#backoff = createBackoff(limits, parts.clock.random);
    this.#stopListening = parts.network.listen(() => this.#after(TOGETHER_MS));
    this.#after(0);
    this.#lookLater();
  }

  transactions(): number {
    return this.#transactions;
  }

  close(): void {
    this.#isClosed = true;
    this.#stopListening();
    this.#cancel();
    this.#cancelLook();
  }

  #after(delayMs: number): void {
    this.#cancel();
    if (!this.#isClosed)
      this.#cancel = this.#parts.clock.after(delayMs, () => void this.#reconcile());
  }

  #lookLater(): void {
    const { clock, periodMs, isThere } = this.#parts;
    this.#cancelLook = clock.after(periodMs, () => {
      if (this.#held !== undefined && this.#held.size > 0 && !this.#isWriting && !isThere()) {
        this.#held = undefined;
        this.#after(0);
      }
      this.#lookLater();
    });
  }

  async #reconcile(): Promise<void> {
    // The devices are looked at again when this is written.
    if (this.#isWriting) return;
    const { network, patterns, write } = this.#parts;
    const wanted = chosenDevices(network.current(), patterns);
    const lines = linesTo(this.#known(), wanted);
    if (lines.length === 0) {
      this.#held = wanted;
      return;
    }
    this.#isWriting = true;
    const reason = await write(textOf(lines));
    this.#isWriting = false;
    if (this.#isClosed) return;
    this.#tell(reason, wanted);
    if (reason !== undefined) return this.#after(this.#backoff.nextMs());
    this.#backoff.reset();
    this.#transactions += 1;
    this.#held = wanted;
    this.#after(TOGETHER_MS);
  }

  /** The kernel takes a device that goes out of the flowtable. */
  #known(): ReadonlyMap<number, string> | undefined {
    const { links } = this.#parts.network.current();
    const held = this.#held;
    return held && new Map([...held].filter(([ifindex]) => links.has(ifindex)));
  }

  #tell(reason: string | undefined, wanted: ReadonlyMap<number, string>): void {
    const { log } = this.#parts;
    const before = this.#reason;
    this.#reason = reason;
    // Many devices come: their names would fill the log.
    if (reason === undefined) {
      if (this.#held === undefined || before !== undefined)
        log.info({ devices: wanted.size }, 'connections are offloaded to a flowtable');
    } else if (reason !== before)
      log.warn({ reason }, 'connections are not offloaded to a flowtable, will retry');
  }
}

/** From what is held; empty: nothing is to be written. */
function linesTo(
  held: ReadonlyMap<number, string> | undefined,
  wanted: ReadonlyMap<number, string>,
): readonly string[] {
  const isFewer = held !== undefined && [...held.keys()].some((ifindex) => !wanted.has(ifindex));
  if (held === undefined || isFewer || held.size === 0) {
    const isEmpty = held?.size === 0 && wanted.size === 0;
    if (isEmpty) return [];
    return [...removal(), ...(wanted.size === 0 ? [] : creation([...wanted.values()]))];
  }
  const added = [...wanted].filter(([ifindex]) => !held.has(ifindex)).map(([, name]) => name);
  return added.length === 0 ? [] : addition(added);
}
