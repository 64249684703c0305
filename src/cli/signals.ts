// SPDX-License-Identifier: Apache-2.0
// Signals that end a command. They are caught until the process is gone: with the default action back in
// place, a second Ctrl-C would end it in the middle of what it takes back.

/**
 * Catches these from now on. The first is given to `stop` as soon as there is one; further ones are ignored.
 * @returns sets `stop`
 */
export function catchSignals(
  signals: readonly NodeJS.Signals[],
): (stop: (signal: NodeJS.Signals) => void) => void {
  let first: NodeJS.Signals | undefined;
  let stop: ((signal: NodeJS.Signals) => void) | undefined;
  for (const signal of signals) {
    process.on(signal, () => {
      if (first !== undefined) return;
      first = signal;
      stop?.(signal);
    });
  }
  return (use) => {
    stop = use;
    if (first !== undefined) use(first);
  };
}
