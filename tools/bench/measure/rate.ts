// SPDX-License-Identifier: Apache-2.0
// Changes at a fixed rate. A proxy that writes once a second does as much for one change as for fifty: at a rate that
// depends on the load of the machine, what each of them costs it would, too.
import { setTimeout as letPass } from 'node:timers/promises';

/** Time between changes. */
interface Pace {
  monotonicMs(): number;
  letPass(ms: number): Promise<unknown>;
}

const REAL_TIME: Pace = { monotonicMs: () => performance.now(), letPass: (ms) => letPass(ms) };

/** So many times, one each period, from now on until the last period is over. What is late is caught up with. */
export async function atRate(
  { count, periodMs }: { readonly count: number; readonly periodMs: number },
  change: (number: number) => Promise<void>,
  pace: Pace = REAL_TIME,
): Promise<void> {
  const startedMs = pace.monotonicMs();
  for (let number = 0; number < count; number += 1) {
    await change(number);
    const leftMs = startedMs + (number + 1) * periodMs - pace.monotonicMs();
    if (leftMs > 0) await pace.letPass(leftMs);
  }
}
