// SPDX-License-Identifier: Apache-2.0
// Searches that take time rest after it, so that they take a fifth of a core, or a third if one takes half a second,
// however often endpoints go.
const REST_FACTOR = 4;
const MAX_REST_MS = 1_000;

/** Each call waits until the rest after the one before has ended. Not for calls at the same time. */
export function withRests<Options, Result>(
  search: (options: Options) => Promise<Result>,
): (options: Options) => Promise<Result> {
  let restsUntilMs = 0;
  return async (options) => {
    const restMs = restsUntilMs - performance.now();
    if (restMs > 0) await new Promise((resolve) => setTimeout(resolve, restMs).unref());
    const startedMs = performance.now();
    try {
      return await search(options);
    } finally {
      const endedMs = performance.now();
      restsUntilMs = endedMs + Math.min(REST_FACTOR * (endedMs - startedMs), MAX_REST_MS);
    }
  };
}
