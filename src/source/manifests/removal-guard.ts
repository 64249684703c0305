// SPDX-License-Identifier: Apache-2.0
// A change of the folder that takes more than half of ten or more Services away at once is more often a slip than meant:
// a folder that is moved, a checkout of the wrong branch. It waits, and is told; what comes back meanwhile was never gone.
import type { Problem } from '../../model/problem.ts';

/** Of fewer Services half is soon reached by what people mean. */
const FEWEST_SERVICES = 10;

/** What a change would take away: Services by name. */
export interface Loss {
  readonly before: ReadonlySet<string>;
  /** Those of `before` that would have neither lost their object nor the last of their EndpointSlices, and new ones. */
  readonly after: ReadonlySet<string>;
}

export interface Waiting {
  readonly leftMs: number;
  readonly problem: Problem;
}

/**
 * What removals have to wait for; undefined: they take effect.
 * @param loss undefined: nothing is removed
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
  let recent = {
    fromMs: Number.NEGATIVE_INFINITY,
    before: new Set<string>() as ReadonlySet<string>,
  };
  return (loss) => {
    const now = clock.monotonicMs();
    if (loss !== undefined && now - recent.fromMs > delayMs)
      recent = { fromMs: now, before: loss.before };
    const isMuch = [recent.before, loss?.before].find((before) => isMost(before, loss));
    if (loss === undefined || isMuch === undefined) {
      since = undefined;
      return undefined;
    }
    since ??= { ms: now, until: timeText(clock.nowMs() + delayMs) };
    const leftMs = since.ms + delayMs - now;
    if (leftMs > 0) return { leftMs, problem: problemOf(dir, isMuch, loss, since.until) };
    since = undefined;
    recent = { fromMs: now, before: loss.after };
    return undefined;
  };
}

const lostOf = (before: ReadonlySet<string>, { after }: Loss): number =>
  [...before].filter((name) => !after.has(name)).length;

const isMost = (before: ReadonlySet<string> | undefined, loss: Loss | undefined): boolean =>
  before !== undefined &&
  loss !== undefined &&
  before.size >= FEWEST_SERVICES &&
  lostOf(before, loss) * 2 > before.size;

const timeText = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

const problemOf = (
  file: string,
  before: ReadonlySet<string>,
  loss: Loss,
  until: string,
): Problem => ({
  file,
  reason: `${lostOf(before, loss)} of ${before.size} Services are gone from the folder, or their last EndpointSlice is: they are kept until ${until} (--manifests-removal-delay); put the files back if that was not meant`,
  isDelayed: true,
});
