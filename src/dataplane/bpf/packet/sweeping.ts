// SPDX-License-Identifier: Apache-2.0
// Runs the sweep of expired flows, a small part of the tables at a time, so that a round takes ROUND_MS. A kernel
// that refuses the program (before Linux 5.14) keeps flows until the tables are full, which is said once.
import { reasonOf } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import type { TableFill } from '../../snapshot.ts';
import { flowFill } from '../flows/fill.ts';
import { createSweep, type Sweep } from '../flows/sweep.ts';
import { type Attached, attachLayer } from '../loader/attach.ts';
import { encodeU32 } from '../maps/layout.ts';

export interface Sweeping {
  /** How full the tables of flows were when they were last swept. */
  fill(): readonly TableFill[];
  close(): void;
}

export interface SweepingParts {
  readonly object: Uint8Array;
  readonly bpfRoot: string;
  readonly sizes: Readonly<Record<string, number>>;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'warn'>;
}

/** A flow is deleted at most this long after it has expired. */
const ROUND_MS = 10_000;
const PROGRAM = 'fl_sweep';

/** After the packet layer, with which it shares maps. */
export async function startSweeping(parts: SweepingParts): Promise<Sweeping> {
  const { object, bpfRoot, sizes, log } = parts;
  const layer = {
    name: 'sweep of flows',
    objects: [{ bytes: object, rodata: [{}] }],
    hooks: [],
    keeps: [PROGRAM],
  };
  try {
    return sweepWith(await attachLayer({ layer, bpfRoot, sizes }), parts);
  } catch (error) {
    log.warn(
      { reason: reasonOf(error) },
      'expired flows are not deleted: this kernel does not load the sweep (Linux 5.14 does)',
    );
    return { fill: () => [], close: () => undefined };
  }
}

function sweepWith(loaded: Attached, { clock, log }: SweepingParts): Sweeping {
  const sweep = sweepOf(loaded);
  const pauseMs = ROUND_MS / sweep.steps;
  const fill = (): readonly TableFill[] =>
    flowFill(sweep.used(), (name) => loaded.map(name).info.maxEntries);
  const noteFull = createFullLog(log);
  let hasFailed = false;
  const step = (): void => {
    try {
      sweep.step();
      hasFailed = false;
      noteFull(fill());
    } catch (error) {
      if (!hasFailed) log.warn({ reason: reasonOf(error) }, 'the sweep of expired flows failed');
      hasFailed = true;
    }
    cancel = clock.after(pauseMs, step);
  };
  let cancel = clock.after(pauseMs, step);
  return {
    fill,
    close() {
      cancel();
      loaded.close();
    },
  };
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

function sweepOf({ map, programs }: Attached): Sweep {
  const program = programs.get(PROGRAM);
  if (program === undefined) throw new TypeError(`no object has a program ${PROGRAM}`);
  return createSweep({
    run: (contextIn) => program.testRun({ contextIn }).retval,
    swept: () => map('fl_swept').get(encodeU32(0)) ?? new Uint8Array(),
    capacity: (name) => map(name).info.maxEntries,
  });
}
