// SPDX-License-Identifier: Apache-2.0
// How many Services are written between two turns of the event loop: as many as take about 5 ms. What a Service takes is
// estimated by what is written for it, and the clock tells how fast that goes: at first slowly, because the code runs for the
// first time. What a short batch leaves to the garbage collector is still young.
import { algorithmOf, lookupOf } from '../../../plan/decide/balancing.ts';
import type { Plan, ServiceKey, ServicePortPlan } from '../../../plan/types.ts';

/** A sync longer than this has the next batch smaller. */
const BATCH_MS = 5;
/** In entries of lookup tables, which are the quickest to write. */
const FIRST_WORK = 8_000;
const LEAST_WORK = 20_000;
const MOST_WORK = 100_000;
const WORK_PER_SERVICE = 500;
const WORK_PER_PORT = 1_000;
const WORK_PER_BACKEND = 50;

export interface Batches {
  /** At least one Service, however large; none: all were written. */
  next(): readonly ServiceKey[];
  /** How long the last batch took. */
  took(elapsedMs: number): void;
}

export function createBatches(plan: Plan, services: Iterable<ServiceKey>): Batches {
  const keys = [...services];
  let at = 0;
  let budget = FIRST_WORK;
  return {
    next: () => {
      const from = at;
      let work = 0;
      while (at < keys.length) {
        work += workOf(plan, keys[at] ?? '');
        if (work > budget && at > from) break;
        at += 1;
      }
      return keys.slice(from, at);
    },
    took: (elapsedMs) => {
      const factor = Math.min(2, BATCH_MS / Math.max(elapsedMs, 0.1));
      budget = Math.max(LEAST_WORK, Math.min(MOST_WORK, budget * factor));
    },
  };
}

const workOf = (plan: Plan, service: ServiceKey): number =>
  (plan.services.get(service)?.ports ?? []).reduce(
    (sum, port) => sum + WORK_PER_PORT + WORK_PER_BACKEND * port.serving.length + tableWork(port),
    WORK_PER_SERVICE,
  );

function tableWork(port: ServicePortPlan): number {
  const lookup = lookupOf(port.externalAlgorithm ?? 'random') ?? lookupOf(algorithmOf(port));
  return lookup === undefined
    ? 0
    : lookup.entriesFor(port.cluster.length, port.tableEntries) +
        lookup.entriesFor(port.local.length, port.tableEntries);
}
