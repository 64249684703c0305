// SPDX-License-Identifier: Apache-2.0
// Who serves the frontends that several Services ask for, as the kernel has it: with this agent's engine, or with one that an
// earlier agent ran.
import type { HeldFrontend } from '../engines/dataplane.ts';
import { incumbentsIn } from '../engines/router/holdings.ts';
import { reasonOf } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { IncumbentOf } from '../plan/decide/ownership.ts';

export type ReadHeld = () => Promise<Iterable<HeldFrontend>>;

/** @param readers of two that know a frontend the later one counts */
export async function readIncumbents(
  readers: readonly ReadHeld[],
  log: Pick<Logger, 'warn'>,
): Promise<IncumbentOf> {
  const found: HeldFrontend[] = [];
  for (const read of readers) {
    try {
      for (const one of await read()) found.push(one);
    } catch (error) {
      log.warn(
        { reason: reasonOf(error) },
        'cannot read who serves frontends of ownership conflicts',
      );
    }
  }
  return incumbentsIn(found);
}
