// SPDX-License-Identifier: Apache-2.0
// Work in steps: a generator that yields after each, so that others may run, and returns the result.

/** All steps at once. */
export function resultOf<T>(steps: Iterator<unknown, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** A step for each item. */
export function* listInSteps<T>(items: Iterable<T>): Generator<void, T[]> {
  const all: T[] = [];
  for (const item of items) {
    all.push(item);
    yield;
  }
  return all;
}
