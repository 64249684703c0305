// SPDX-License-Identifier: Apache-2.0
// A change of the folder that takes more than half of ten or more Services away at once is more often a slip than meant:
// a folder that is moved, a checkout of the wrong branch. It waits, and is told; what comes back meanwhile was never gone.
import type { Problem } from '../../model/problem.ts';

/** Of fewer Services half is soon reached by what people mean. */
const FEWEST_SERVICES = 10;

/** What a change would take away. */
export interface Loss {
  /** Services there are. */
  readonly services: number;
  /** Of these: without their object, or without the last of their EndpointSlices. */
  readonly lost: number;
}

export interface Waiting {
  readonly leftMs: number;
  readonly problem: Problem;
}

/** What removals have to wait for; undefined: they take effect. */
export type RemovalGuard = (loss: Loss) => Waiting | undefined;

interface Clock {
  nowMs(): number;
  monotonicMs(): number;
}

/** @param delayMs 0: nothing waits */
export function createRemovalGuard(dir: string, delayMs: number, clock: Clock): RemovalGuard {
  let since: { readonly ms: number; readonly until: string } | undefined;
  /** Files go one after the other: what has gone within the delay belongs to the same change. */
  let recent = { fromMs: Number.NEGATIVE_INFINITY, lost: 0 };
  return ({ services, lost }) => {
    const now = clock.monotonicMs();
    if (now - recent.fromMs > delayMs) recent = { fromMs: now, lost: 0 };
    const before = services + recent.lost;
    const isMuch = before >= FEWEST_SERVICES && (lost + recent.lost) * 2 > before;
    if (lost === 0 || !isMuch) {
      since = undefined;
      recent = { ...recent, lost: recent.lost + lost };
      return undefined;
    }
    since ??= { ms: now, until: timeText(clock.nowMs() + delayMs) };
    const leftMs = since.ms + delayMs - now;
    if (leftMs > 0) return { leftMs, problem: problemOf(dir, { services, lost }, since.until) };
    since = undefined;
    recent = { fromMs: now, lost: 0 };
    return undefined;
  };
}

const timeText = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

const problemOf = (file: string, { services, lost }: Loss, until: string): Problem => ({
  file,
  reason: `${lost} of ${services} Services are gone from the folder, or their last EndpointSlice is: they are kept until ${until} (--manifests-removal-delay); put the files back if that was not meant`,
  isDelayed: true,
});
