// SPDX-License-Identifier: Apache-2.0
// Looks at what else is on the node: at the start, after a change of its devices or addresses, every 30 seconds, and when a person asks.
// The last reading is kept. Off the path of every sync: nothing waits for it.
import type { Clock } from '../../lib/clock.ts';
import type { Logger } from '../../log.ts';
import type { NodeFacts, OwnFacts } from '../../on-node/facts.ts';
import type { Finding } from '../../on-node/finding.ts';
import { findingsOf } from '../../on-node/findings.ts';

const INTERVAL_MS = 30_000;
/** Devices come and go together. */
const SETTLE_MS = 1_000;
/** A reading that is younger is fresh enough for a person. */
const FRESH_MS = 500;

export interface OnNodeParts {
  readonly read: () => NodeFacts;
  readonly own: () => OwnFacts;
  /** Findings of readers that look by themselves. */
  readonly more?: () => readonly Finding[];
  readonly clock: Pick<Clock, 'after' | 'monotonicMs'>;
  readonly log: Pick<Logger, 'warn'>;
}

export interface OnNode {
  /** Of the last reading; looks first if that is older than half a second and `isAsked`. */
  findings(isAsked?: boolean): readonly Finding[];
  /** Called with those that break Services and have not been there at the look before. */
  onBroken(listener: (fresh: readonly Finding[]) => void): void;
  /** Something has changed: looks a second later. */
  changed(): void;
  close(): void;
}

/** What is listed in a finding may grow: that is nothing new. */
const identityOf = ({ topic, identity, what }: Finding): string =>
  JSON.stringify([topic, identity ?? what]);

export function createOnNode({ read, own, more, clock, log }: OnNodeParts): OnNode {
  let last: readonly Finding[] = [];
  let readAt = Number.NEGATIVE_INFINITY;
  let broken: readonly string[] = [];
  let isSettling = false;
  let cancel = (): void => undefined;
  const listeners: ((fresh: readonly Finding[]) => void)[] = [];
  const tell = (): void => {
    const all = last.filter(({ breaksServices }) => breaksServices);
    const fresh = all.filter((one) => !broken.includes(identityOf(one)));
    broken = all.map(identityOf);
    for (const { topic, what, consequence, advice } of fresh)
      log.warn({ topic, what, consequence, advice }, 'something on this node breaks Services');
    if (fresh.length > 0) for (const listener of listeners) listener(fresh);
  };
  const look = (): void => {
    last = findingsOf(read(), own(), more?.());
    readAt = clock.monotonicMs();
    tell();
  };
  const lookIn = (delayMs: number): void => {
    cancel();
    cancel = clock.after(delayMs, () => {
      isSettling = false;
      look();
      lookIn(INTERVAL_MS);
    });
  };
  lookIn(0);
  return {
    findings(isAsked = false) {
      if (isAsked && clock.monotonicMs() - readAt > FRESH_MS) look();
      return last;
    },
    onBroken: (listener) => void listeners.push(listener),
    changed() {
      if (isSettling) return;
      isSettling = true;
      lookIn(SETTLE_MS);
    },
    close: () => cancel(),
  };
}
