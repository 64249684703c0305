// SPDX-License-Identifier: Apache-2.0
// A change of the folder that takes more than half of ten or more Services away at once, or empties them, is more often a
// slip than meant: a folder that is moved, a checkout of the wrong branch, another label in each EndpointSlice. It waits,
// and is told; what comes back meanwhile was never gone.
import type { Problem } from '../../model/problem.ts';
import { type Assets, type Loss, lostOf } from './loss.ts';

/** Of fewer Services half is soon reached by what people mean. */
const FEWEST_SERVICES = 10;

export interface Waiting {
  readonly leftMs: number;
  readonly problem: Problem;
}

/**
 * What a loss has to wait for; undefined: it takes effect.
 * @param loss undefined: nothing is lost
 */
export type RemovalGuard = (loss: Loss | undefined) => Waiting | undefined;

interface Clock {
  nowMs(): number;
  monotonicMs(): number;
}

/** @param delayMs 0: nothing waits */
export function createRemovalGuard(dir: string, delayMs: number, clock: Clock): RemovalGuard {
  let since: { readonly ms: number; readonly until: string } | undefined;
  /** Files go one after the other: what has gone within the delay belongs to the same change. */
  let recent: { readonly fromMs: number; readonly before: Assets } = {
    fromMs: Number.NEGATIVE_INFINITY,
    before: new Map(),
  };
  return (loss) => {
    const now = clock.monotonicMs();
    if (loss !== undefined && now - recent.fromMs > delayMs)
      recent = { fromMs: now, before: loss.before };
    // Files come back one after the other, too: what is not back yet waits on.
    const whileWaiting = since === undefined ? undefined : loss?.before;
    const measured =
      [recent.before, loss?.before].find((before) => isMost(before, loss)) ?? whileWaiting;
    if (loss === undefined || measured === undefined) {
      since = undefined;
      return undefined;
    }
    since ??= { ms: now, until: timeText(clock.nowMs() + delayMs) };
    const leftMs = since.ms + delayMs - now;
    if (leftMs > 0) return { leftMs, problem: problemOf(dir, measured, loss, since.until) };
    since = undefined;
    recent = { fromMs: now, before: loss.after };
    return undefined;
  };
}

const isMost = (before: Assets | undefined, loss: Loss | undefined): boolean =>
  before !== undefined &&
  loss !== undefined &&
  before.size >= FEWEST_SERVICES &&
  lostOf(before, loss.after).size * 2 > before.size;

const timeText = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

const problemOf = (file: string, before: Assets, { after }: Loss, until: string): Problem => ({
  file,
  reason: `${lostOf(before, after).size} of ${before.size} Services are gone from the folder, or have lost their address or all endpoints: they are kept until ${until} (--manifests-removal-delay); put the files back if that was not meant`,
  isDelayed: true,
});
