// SPDX-License-Identifier: Apache-2.0
// Takes over from every engine that this agent does not run; which those are changes when packets move.
import type { ComposedDataplane } from '../../engines/dataplane.ts';
import type { Predecessor } from '../../engines/predecessor.ts';
import type { Logger } from '../../log.ts';
import { createHandOver, type HandOver } from './hand-over.ts';

export interface HandOvers extends HandOver {
  /** Begins again, after the next full sync. */
  packetsMoved(): void;
}

/** Those that this agent does not run. */
export function othersOf(
  predecessors: readonly Predecessor[],
  { dataplanes }: Pick<ComposedDataplane, 'dataplanes'>,
): readonly Predecessor[] {
  const running = new Set(dataplanes.map((one) => one.dataplane));
  return predecessors.filter(({ engine }) => !running.has(engine));
}

export function createHandOvers(
  predecessors: readonly Predecessor[],
  dataplane: Pick<ComposedDataplane, 'dataplanes'>,
  log: Pick<Logger, 'info' | 'warn'>,
): HandOvers {
  const begin = (): readonly HandOver[] =>
    othersOf(predecessors, dataplane).map((predecessor) => createHandOver(predecessor, log));
  const close = (): void => {
    for (const ending of endings) ending.close();
  };
  let endings = begin();
  return {
    packetsMoved() {
      close();
      endings = begin();
    },
    synced(facts) {
      for (const ending of endings) ending.synced(facts);
    },
    close,
  };
}
