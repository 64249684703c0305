// SPDX-License-Identifier: Apache-2.0
// A full sync of a proxy that has run for a while: somebody removes all rules, and it writes them again, once it has noticed.
import { removeRules } from '../../../tools/bench/proxies/tools.ts';
import { letPass, monotonicMs } from '../clock.ts';
import type { Seat, Site } from '../site.ts';
import { meanSeconds, readSyncs } from './metrics.ts';
import { ownLock, proxySandbox } from './proxy.ts';

/** Both look every 30 s; writing may take longer. */
const NOTICED_MS = 240_000;
const LOOK_MS = 1_000;

/** By its own metric; undefined if it tells none, or does not notice in time. */
export async function measureFlushed(site: Site, seat: Seat): Promise<number | undefined> {
  const node = site.nodeOf(seat);
  const before = (await readSyncs(node))?.full;
  if (before === undefined) return undefined;
  await removeRules(proxySandbox(site, seat).sandbox, ownLock(site, seat));
  const deadlineMs = monotonicMs() + NOTICED_MS;
  while (monotonicMs() < deadlineMs) {
    await letPass(LOOK_MS);
    const after = (await readSyncs(node))?.full;
    const seconds = after && meanSeconds(before, after);
    if (seconds !== undefined) return seconds;
  }
  return undefined;
}
