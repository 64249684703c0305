// SPDX-License-Identifier: Apache-2.0
// Waits for a condition, a turn of the loop at a time.
export async function until(isTrue: () => boolean, deadlineMs = 10_000): Promise<void> {
  const end = Date.now() + deadlineMs;
  while (!isTrue()) {
    if (Date.now() > end) throw new Error(`not true before the deadline: ${isTrue}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
