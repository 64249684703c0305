// SPDX-License-Identifier: Apache-2.0
// Runs the sweep of expired flows, a small part of the tables at a time, so that a round takes ROUND_MS, or longer if it
// would take much of a CPU, and corrects the counts of living flows and clears marks after rounds. Where the kernel refuses the program (before Linux 5.14) the agent does its work.
import { reasonOf } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import { waitGracePeriod } from '../../../sys/native.ts';
import type { TableFill } from '../../snapshot.ts';
import { flowFill } from '../flows/fill.ts';
import type { FlowTables } from '../flows/flow-tables.ts';
import { createBatchSweep } from '../flows/sweep/batch-sweep.ts';
import { createMarkSweep, type MarkSweep } from '../flows/sweep/marks.ts';
import { createRecount, type Recount } from '../flows/sweep/recount.ts';
import { createSweep, type Sweep } from '../flows/sweep/sweep.ts';
import { type Attached, attachLayer } from '../loader/attach.ts';
import { encodeU32 } from '../maps/layout.ts';
import type { PacketSettings } from '../maps/packet-layout.ts';
import type { ArrayTable, Tables } from '../maps/tables.ts';

export interface Sweeping {
  /** How full the tables of flows were when they were last swept. */
  fill(): readonly TableFill[];
  close(): void;
}

export interface SweepingParts {
  readonly object: Uint8Array;
  readonly bpfRoot: string;
  readonly sizes: Readonly<Record<string, number>>;
  /** Of the packet layer, for a kernel that refuses the object. */
  readonly tables: {
    readonly flows: FlowTables;
    readonly traffic: ArrayTable;
    /** fl_mark. */
    readonly marks: ArrayTable;
    readonly capacity: (name: string) => number;
    readonly timeouts: PacketSettings['timeoutSeconds'];
    readonly shared: Pick<Tables, 'backend' | 'backendFlows'>;
  };
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** A flow is deleted at most this long after it has expired. */
const ROUND_MS = 10_000;
/** At most a fifth of a CPU. */
const PAUSE_FACTOR = 4;
const PROGRAM = 'fl_sweep';

/** After the packet layer, with which it shares maps. A start does not wait for the kernel to verify the program. */
export function startSweeping(parts: SweepingParts): Sweeping {
  let running: Sweeping | undefined;
  let isClosed = false;
  void loadSweeping(parts).then((loaded) => {
    if (isClosed) loaded.close();
    else running = loaded;
  });
  return {
    fill: () => running?.fill() ?? [],
    close() {
      isClosed = true;
      running?.close();
    },
  };
}

async function loadSweeping(parts: SweepingParts): Promise<Sweeping> {
  const { object, bpfRoot, sizes, log } = parts;
  try {
    const { sweep, close: unload } = await loadSweep({ object, bpfRoot, sizes });
    const marks = createMarkSweep({ marks: parts.tables.marks, waitGracePeriod });
    const { fill, close } = sweepWith(sweep, parts, recountOf(parts), marks);
    return {
      fill,
      close() {
        close();
        unload();
      },
    };
  } catch (error) {
    const reason = reasonOf(error);
    log.info({ reason }, 'this kernel does not load the sweep of flows, the agent does its work');
    const recount = recountOf(parts);
    return sweepWith(batchSweep(parts, recount), parts, recount);
  }
}

const nowMs = (): number => Number(process.hrtime.bigint() / 1_000_000n);

const recountOf = ({ tables }: SweepingParts): Recount =>
  createRecount({ tables: tables.shared, nowMs });

/** The program that deletes expired flows. Throws FairleadError if the kernel refuses it. */
export async function loadSweep({
  object,
  bpfRoot,
  sizes,
}: Pick<SweepingParts, 'object' | 'bpfRoot' | 'sizes'>): Promise<{
  readonly sweep: Sweep;
  close(): void;
}> {
  const layer = {
    name: 'sweep of flows',
    objects: [{ bytes: object, rodata: [{}] }],
    hooks: [],
    keeps: [PROGRAM],
  };
  const loaded = await attachLayer({ layer, bpfRoot, sizes });
  return { sweep: sweepOf(loaded), close: () => loaded.close() };
}

function sweepWith(
  sweep: Sweep,
  parts: SweepingParts,
  recount: Recount,
  marks?: MarkSweep,
): Sweeping {
  const { tables, clock, log } = parts;
  const fill = (): readonly TableFill[] => flowFill(sweep.used(), tables.capacity);
  const noteFull = createFullLog(log);
  let hasFailed = false;
  let isWhole = true;
  const step = (): void => {
    const startedAt = performance.now();
    try {
      if (sweep.step()) {
        recount.turn(isWhole);
        marks?.turn(isWhole);
        isWhole = true;
      }
      hasFailed = false;
      noteFull(fill());
    } catch (error) {
      if (!hasFailed) log.warn({ reason: reasonOf(error) }, 'the sweep of expired flows failed');
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
      if (!full.has(name)) log.warn({ map: name, reason: problem }, 'a table of flows is full');
    }
    full = new Set(now.map(({ name }) => name));
  };
}

const batchSweep = ({ tables }: SweepingParts, recount: Recount): Sweep =>
  createBatchSweep({ ...tables, recount, nowSeconds: () => Math.floor(nowMs() / 1000) });

function sweepOf({ map, programs }: Attached): Sweep {
  const program = programs.get(PROGRAM);
  if (program === undefined) throw new TypeError(`no object has a program ${PROGRAM}`);
  return createSweep({
    run: (contextIn) => program.testRun({ contextIn }).retval,
    swept: () => map('fl_swept').get(encodeU32(0)) ?? new Uint8Array(),
    capacity: (name) => map(name).info.maxEntries,
  });
}
