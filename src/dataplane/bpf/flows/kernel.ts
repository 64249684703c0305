// SPDX-License-Identifier: Apache-2.0
// Flow tables over BPF maps, read batch by batch, and the totals of all flows, read in the background.
import { setTimeout as delay } from 'node:timers/promises';
import { reasonOf } from '../../../errors.ts';
import type { Logger } from '../../../log.ts';
import type { BpfMap } from '../../../sys/native.ts';
import type { ElementBatch, FlowTable, FlowTables, Tiers } from './flow-tables.ts';
import { neverLess, readTotals, type Totals, type TotalsTables } from './traffic/totals.ts';

export const LEG_MAPS = [
  'fl_flow4',
  'fl_flow6',
  'fl_nat4',
  'fl_nat6',
  'fl_snat4',
  'fl_snat6',
  'fl_new_flow4',
  'fl_new_flow6',
  'fl_new_nat4',
  'fl_new_nat6',
  'fl_new_snat4',
  'fl_new_snat6',
] as const;
export type LegMap = (typeof LEG_MAPS)[number];

export const FLOW_MAPS = [...LEG_MAPS, 'fl_traffic'] as const;
/** About 300 KiB of IPv6 flows. */
const BATCH_ELEMENTS = 2048;

export function flowTable(map: BpfMap): FlowTable {
  const { name, keySize, valueSize } = map.info;
  return {
    ...{ name, keySize, valueSize },
    get: (key) => map.get(key),
    put: (key, value) => map.put(key, value),
    delete: (key) => map.delete(key),
    batches: () => batchesOf(map),
  };
}

function* batchesOf(map: BpfMap): Generator<ElementBatch> {
  for (let after: Uint8Array | undefined; ; ) {
    const { next, ...batch } = map.readBatch(BATCH_ELEMENTS, after);
    yield batch;
    if (next === undefined) return;
    after = next;
  }
}

export const flowTables = (map: (name: LegMap) => BpfMap): FlowTables =>
  flowTablesOf((name) => flowTable(map(name)));

export function flowTablesOf(table: (name: LegMap) => FlowTable): FlowTables {
  const tiers = (main: LegMap, halfOpen: LegMap): Tiers => ({
    main: table(main),
    halfOpen: table(halfOpen),
  });
  return {
    IPv4: {
      flow: tiers('fl_flow4', 'fl_new_flow4'),
      nat: tiers('fl_nat4', 'fl_new_nat4'),
      snat: tiers('fl_snat4', 'fl_new_snat4'),
    },
    IPv6: {
      flow: tiers('fl_flow6', 'fl_new_flow6'),
      nat: tiers('fl_nat6', 'fl_new_nat6'),
      snat: tiers('fl_snat6', 'fl_new_snat6'),
    },
  };
}

export interface TotalsReader {
  /** Those of the last reading, and starts a new one if that is old; undefined before the first has ended. */
  read(): Totals | undefined;
  /** As read(), but waits a moment for the reading that runs. */
  latest(): Promise<Totals | undefined>;
  /** The reading that runs ends early. */
  close(): void;
}

/** A reading takes about a second of CPU for a million flows: no more than one in this time. */
const READING_INTERVAL_MS = 5_000;
/** Enough for some 100,000 flows; a command that waits longer would seem to hang. */
const LONGEST_WAIT_MS = 300;

/** Reads in turns of the event loop, a batch in each. After a reading that fails the last one is shown until one succeeds. */
export function createTotalsReader(
  tables: TotalsTables,
  log: Pick<Logger, 'warn'>,
  intervalMs = READING_INTERVAL_MS,
): TotalsReader {
  let last: Totals | undefined;
  let startedAt = Number.NEGATIVE_INFINITY;
  let isReading = false;
  let hasFailed = false;
  let isClosed = false;
  let tellEnd: () => void = () => undefined;
  let ended = Promise.resolve();
  const end = (): void => {
    isReading = false;
    tellEnd();
  };
  const step = (reading: Generator<undefined, Totals>): void => {
    if (isClosed) return;
    try {
      const { done, value } = reading.next();
      if (done !== true) {
        setImmediate(step, reading);
        return;
      }
      last = neverLess(last, value);
      hasFailed = false;
    } catch (error) {
      if (!hasFailed) log.warn({ reason: reasonOf(error) }, 'the totals of flows cannot be read');
      hasFailed = true;
    }
    end();
  };
  const read = (): Totals | undefined => {
    if (!isReading && !isClosed && performance.now() - startedAt >= intervalMs) {
      isReading = true;
      startedAt = performance.now();
      ended = new Promise((resolve) => {
        tellEnd = resolve;
      });
      step(readTotals(tables));
    }
    return last;
  };
  return {
    read,
    async latest() {
      read();
      const timer = new AbortController();
      const timeout = delay(LONGEST_WAIT_MS, undefined, { signal: timer.signal }).catch(
        () => undefined,
      );
      await Promise.race([ended, timeout]);
      timer.abort();
      return last;
    },
    close() {
      isClosed = true;
      tellEnd();
    },
  };
}
