// SPDX-License-Identifier: Apache-2.0
// Events about the Node: tables that are full although no Service's update has failed, such as those of flows.
import type { TableFill } from '../../engines/snapshot.ts';
import type { Clock } from '../../lib/clock.ts';
import type { EventRecorder } from './recorder.ts';

const INTERVAL_MS = 10_000;

export interface FullTablesParts {
  readonly tables: () => readonly TableFill[];
  readonly record: EventRecorder['record'];
  readonly nodeName: string;
  readonly clock: Pick<Clock, 'after'>;
}

/** Records an Event while a table is full; the recorder holds repetitions back. @returns a function that ends it */
export function followFullTables({ tables, record, nodeName, clock }: FullTablesParts): () => void {
  const look = (): void => {
    for (const { problem } of tables()) {
      if (problem !== undefined) record('MapFull', { kind: 'Node', name: nodeName }, problem);
    }
    cancel = clock.after(INTERVAL_MS, look);
  };
  let cancel = clock.after(INTERVAL_MS, look);
  return () => cancel();
}
