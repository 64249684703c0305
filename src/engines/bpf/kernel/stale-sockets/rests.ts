// SPDX-License-Identifier: Apache-2.0
// A search that took time is followed by a cooldown. However often endpoints go, searches take a fifth of a core, or a
// third if one takes half a second.
const COOLDOWN_FACTOR = 4;
const MAX_COOLDOWN_MS = 1_000;

/** Each call waits until the cooldown of the one before has ended. Not for calls at the same time. */
export function withCooldown<Options, Result>(
  search: (options: Options) => Promise<Result>,
): (options: Options) => Promise<Result> {
  let coolsUntilMs = 0;
  return async (options) => {
    const cooldownMs = coolsUntilMs - performance.now();
    if (cooldownMs > 0) await new Promise((resolve) => setTimeout(resolve, cooldownMs).unref());
    const startedMs = performance.now();
    try {
      return await search(options);
    } finally {
      const endedMs = performance.now();
      coolsUntilMs = endedMs + Math.min(COOLDOWN_FACTOR * (endedMs - startedMs), MAX_COOLDOWN_MS);
    }
  };
}
