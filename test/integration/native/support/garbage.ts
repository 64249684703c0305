// SPDX-License-Identifier: Apache-2.0
// Collects garbage now, without node's --expose-gc.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose_gc');
const collect = runInNewContext('gc') as () => void;

export function collectGarbage(): void {
  collect();
}

/** Collects garbage and lets finalizers run until `isDone`; throws after the deadline. */
export async function collectUntil(isDone: () => boolean, deadlineMs = 60_000): Promise<void> {
  const end = Date.now() + deadlineMs;
  while (!isDone()) {
    if (Date.now() > end) throw new Error('not collected before the deadline');
    collect();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** What nothing refers to any more is closed: how many descriptors there are does not fall later by itself. */
export async function collectLeft(): Promise<void> {
  let collections = 0;
  await collectUntil(() => collections++ > 5);
}
