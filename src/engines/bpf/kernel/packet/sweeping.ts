// SPDX-License-Identifier: Apache-2.0
// Runs the sweep of expired connections, a small part of the tables at a time, so that a round takes ROUND_MS, or longer if it
// would take much of a CPU, and corrects the counts of living ones and clears marks after rounds.
import { reasonOf } from '../../../../errors.ts';
import type { Clock } from '../../../../lib/clock.ts';
import type { Logger } from '../../../../log.ts';
import type { Family } from '../../../../model/types.ts';
import { waitGracePeriod } from '../../../../sys/native.ts';
import type { TableFill } from '../../../snapshot.ts';
import { digitOf } from '../../conn/conn-table.ts';
import { type Occupancy, occupancyOf } from '../../conn/counts.ts';
import { connFill } from '../../flows/fill.ts';
import { createMarkSweep, type MarkSweep } from '../../flows/sweep/marks.ts';
import { createRecount, type Recount } from '../../flows/sweep/recount.ts';
import { createSweep, type Sweep } from '../../flows/sweep/sweep.ts';
import { encodeU32 } from '../../layout/layout.ts';
import type { ArrayTable, Tables } from '../../state/tables.ts';
import { type Attached, attachLayer } from '../loader/attach.ts';

export interface Sweeping {
  /** How full the tables of connections are. */
  fill(): readonly TableFill[];
  close(): void;
}

/** How many connections there are. */
export type Look = (occupancy: Readonly<Record<Family, Occupancy>>) => void;

export interface SweepingParts {
  readonly object: Uint8Array;
  readonly bpfRoot: string;
  readonly sizes: Readonly<Record<string, number>>;
  readonly tables: {
    /** fl_mark. */
    readonly marks: ArrayTable;
    /** fl_conn_count. */
    readonly counts: ArrayTable;
    /** Of the clients' index. */
    readonly buckets: (family: Family) => number;
    readonly shared: Pick<Tables, 'backendFlows'>;
  };
  readonly look?: Look | undefined;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'warn'>;
}

/** A connection ends at most this long after it has expired. */
const ROUND_MS = 10_000;
/** At most a fifth of a CPU. */
const PAUSE_FACTOR = 4;
const PROGRAM = 'fl_sweep';

/** After a failure. Memory may be short for a while. */
const AGAIN_MS = 600_000;

/**
 * After the packet layer, with which it shares maps. A start does not wait for the kernel to verify the program. Without it what
 * is over stays until others need its slot, and the table does not grow.
 */
export function startSweeping(parts: SweepingParts): Sweeping {
  const { clock, log } = parts;
  let running: Sweeping | undefined;
  let isClosed = false;
  const begin = (): void => {
    void loadSweeping(parts, () => isClosed).then(
      (loaded) => {
        if (isClosed) loaded?.close();
        else running = loaded;
      },
      (error) => {
        if (isClosed) return;
        log.warn(
          { reason: reasonOf(error) },
          'this kernel does not load the sweep: no connection of packets expires, and their table does not grow; fairlead tries again in ten minutes',
        );
        running = { fill: fillOf(parts), close: clock.after(AGAIN_MS, begin) };
      },
    );
  };
  begin();
  return {
    fill: () => running?.fill() ?? [],
    close() {
      isClosed = true;
      running?.close();
    },
  };
}

/**
 * @param isClosed the maps are closed by now. @returns undefined: they were when it was loaded. Throws FairleadError.
 */
async function loadSweeping(
  parts: SweepingParts,
  isClosed: () => boolean,
): Promise<Sweeping | undefined> {
  const { object, bpfRoot, sizes } = parts;
  const { sweep, close: unload } = await loadSweep({ object, bpfRoot, sizes });
  if (isClosed()) {
    unload();
    return undefined;
  }
  const marks = createMarkSweep({ marks: parts.tables.marks, waitGracePeriod });
  const { fill, close } = sweepWith(sweep, parts, recountOf(parts), marks);
  return {
    fill,
    close() {
      close();
      unload();
    },
  };
}

const nowMs = (): number => Number(process.hrtime.bigint() / 1_000_000n);

const recountOf = ({ tables }: SweepingParts): Recount =>
  createRecount({ tables: tables.shared, nowMs });

/** The program that ends expired connections. Throws FairleadError if the kernel refuses it. */
export async function loadSweep({
  object,
  bpfRoot,
  sizes,
}: Pick<SweepingParts, 'object' | 'bpfRoot' | 'sizes'>): Promise<{
  readonly sweep: Sweep;
  close(): void;
}> {
  const layer = {
    name: 'sweep of connections',
    objects: [{ bytes: object, rodata: [{}] }],
    hooks: [],
    keeps: [PROGRAM],
  };
  const loaded = await attachLayer({ layer, bpfRoot, sizes });
  return { sweep: sweepOf(loaded), close: () => loaded.close() };
}

/** A row has a problem until the look after the one that found no room lost. */
function fillOf({ tables: { counts, buckets } }: SweepingParts): () => readonly TableFill[] {
  let before = lostOf(counts);
  let rows = connFill(occupancyOf(counts), buckets, before);
  let readMs = performance.now();
  return () => {
    const now = performance.now();
    rows = connFill(occupancyOf(counts), buckets, before);
    if (now - readMs < ROUND_MS) return rows;
    readMs = now;
    before = lostOf(counts);
    return rows;
  };
}

function lostOf(counts: ArrayTable): Readonly<Record<Family, number>> {
  const { IPv4, IPv6 } = occupancyOf(counts);
  return { IPv4: IPv4.noRoom, IPv6: IPv6.noRoom };
}

function sweepWith(
  sweep: Sweep,
  parts: SweepingParts,
  recount: Recount,
  marks: MarkSweep,
): Sweeping {
  const { clock, look, log } = parts;
  const fill = fillOf(parts);
  const noteFull = createFullLog(log);
  let hasFailed = false;
  let isWhole = true;
  const step = (): void => {
    const startedAt = performance.now();
    try {
      if (sweep.step()) {
        recount.turn(isWhole);
        marks.turn(isWhole);
        isWhole = true;
      }
      hasFailed = false;
      noteFull(fill());
      look?.(occupancyOf(parts.tables.counts));
    } catch (error) {
      if (!hasFailed)
        log.warn({ reason: reasonOf(error) }, 'the sweep of expired connections failed');
      hasFailed = true;
      isWhole = false;
    }
    const tookMs = performance.now() - startedAt;
    const pauseMs = Math.max(ROUND_MS / sweep.steps, PAUSE_FACTOR * tookMs);
    cancel = clock.after(Math.max(pauseMs, recount.waitMs()), step);
  };
  recount.turn(false);
  let cancel = clock.after(Math.max(ROUND_MS / sweep.steps, recount.waitMs()), step);
  return { fill, close: () => cancel() };
}

/** Warns once for each table that becomes full, and again if it has had room meanwhile. */
function createFullLog(log: Pick<Logger, 'warn'>): (tables: readonly TableFill[]) => void {
  let full: ReadonlySet<string> = new Set();
  return (tables) => {
    const now = tables.filter(({ problem }) => problem !== undefined);
    for (const { name, problem } of now) {
      if (!full.has(name))
        log.warn({ map: name, reason: problem }, 'the table of connections is full');
    }
    full = new Set(now.map(({ name }) => name));
  };
}

function sweepOf({ map, programs }: Attached): Sweep {
  const program = programs.get(PROGRAM);
  if (program === undefined) throw new TypeError(`no object has a program ${PROGRAM}`);
  return createSweep({
    run: (dataIn) => program.testRun({ dataIn }).retval,
    swept: () => map('fl_swept').get(encodeU32(0)) ?? new Uint8Array(),
    buckets: (family) => map(`fl_client${digitOf(family)}`).info.maxEntries,
  });
}
