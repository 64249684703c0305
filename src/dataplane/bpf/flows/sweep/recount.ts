// SPDX-License-Identifier: Apache-2.0
// The count of living flows of each backend (fl_be_flows), which least connections compares. Programs count the flows
// that they make and delete; one that a full table evicts, or that the agent deletes, nobody counts. So each round of the
// sweep corrects the count of the older flows, those that were there when it began: it has met some, and of these
// some may have ended since. The right number is between the two, and what programs have counted is right unless it is
// not. What is evicted is therefore counted for two rounds at most, 20 seconds, and no error stays.
import type { Family } from '../../../../model/types.ts';
import {
  BACKEND_STATE,
  backendGenerationOffset,
  backendServiceOffset,
  backendStateOffset,
} from '../../maps/layout.ts';
import type { ArrayTable, Tables } from '../../maps/tables.ts';
import type { ElementBatch } from '../flow-tables.ts';
import type { FlowLeg } from '../legs.ts';

export interface Recount {
  /** Flow legs that a sweep without the kernel's program has come by. */
  meet(batch: ElementBatch, valueSize: number, family: Family): void;
  /** One that it has deleted. */
  end(flow: FlowLeg, family: Family): void;
  /**
   * A round is over, and the next one begins.
   * @param isWhole it has come by every flow
   */
  turn(isWhole: boolean): void;
  /** Until the round may come by flows: before, flows may begin that it would not meet. */
  waitMs(): number;
}

export interface RecountOptions {
  readonly tables: Pick<Tables, 'backend' | 'backendFlows'>;
  /** CLOCK_MONOTONIC. */
  readonly nowMs: () => number;
}

/** Programs read the clock once in each tick of the kernel's timer. */
const TICK_MS = 20;

/** struct backend_flows. */
const WORD = { older: 0, newer: 1, ended: 2, met: 3 } as const;
const WORDS = 4;
/** The element whose `met` says when the round began. */
const ROUND = 0;
/** struct flow. */
const FLOW_AT = { backendId: 4, serviceId: 8, bornSeconds: 20, generation: 42 } as const;

export function createRecount({ tables, nowMs }: RecountOptions): Recount {
  const { backendFlows } = tables;
  let beganSeconds = 0;
  const wordsOf = (id: number): Int32Array =>
    wordsAt(backendFlows.view(id), backendFlows.offset(id));
  const isOlder = (bornSeconds: number): boolean => bornSeconds < beganSeconds;
  return {
    meet({ values, count }, valueSize, family) {
      const view = new DataView(values.buffer, values.byteOffset, values.byteLength);
      for (let index = 0; index < count; index += 1) {
        const at = index * valueSize;
        if (!isOlder(view.getUint32(at + FLOW_AT.bornSeconds, true))) continue;
        const flow = {
          backendId: view.getUint32(at + FLOW_AT.backendId, true),
          serviceId: view.getUint32(at + FLOW_AT.serviceId, true),
          generation: view.getUint16(at + FLOW_AT.generation, true),
        };
        if (isOfBackend(tables, flow, family)) Atomics.add(wordsOf(flow.backendId), WORD.met, 1);
      }
    },
    end(flow, family) {
      if (!isOfBackend(tables, flow, family)) return;
      const words = wordsOf(flow.backendId);
      if (isOlder(flow.bornSeconds)) Atomics.add(words, WORD.ended, 1);
      Atomics.sub(words, isOlder(flow.bornSeconds) ? WORD.older : WORD.newer, 1);
    },
    turn(isWhole) {
      beganSeconds = Math.floor(nowMs() / 1000) + 1;
      Atomics.store(wordsOf(ROUND), WORD.met, beganSeconds);
      backendFlows.scan((chunk, offset, id) => {
        if (id !== ROUND && !isZero(chunk, offset)) begin(wordsAt(chunk, offset), isWhole);
        return false;
      });
    },
    waitMs: () => Math.max(0, beganSeconds * 1000 + TICK_MS - nowMs()),
  };
}

/** What is newer now was there when the next round began. */
function begin(words: Int32Array, isWhole: boolean): void {
  const [older = 0, newer = 0, ended = 0, met = 0] = words;
  const right = isWhole ? Math.min(Math.max(older, met - ended), met) : older;
  Atomics.add(words, WORD.older, right - older + newer);
  Atomics.sub(words, WORD.newer, newer);
  Atomics.sub(words, WORD.ended, ended);
  Atomics.store(words, WORD.met, 0);
}

const wordsAt = (view: DataView, offset: number): Int32Array =>
  new Int32Array(view.buffer, view.byteOffset + offset, WORDS);

const isZero = (view: DataView, at: number): boolean =>
  view.getInt32(at) === 0 &&
  view.getInt32(at + 4) === 0 &&
  view.getInt32(at + 8) === 0 &&
  view.getInt32(at + 12) === 0;

/** The id may belong to another backend by now: see flows_of() in bpf/packet/flow/live.h. */
function isOfBackend(
  { backend, backendFlows }: RecountOptions['tables'],
  { backendId, serviceId, generation }: Pick<FlowLeg, 'backendId' | 'serviceId' | 'generation'>,
  family: Family,
): boolean {
  const table = backend[family];
  if (backendId >= table.length || backendId >= backendFlows.length) return false;
  const view = table.view(backendId);
  const at = table.offset(backendId);
  return (
    view.getUint8(at + backendStateOffset(family)) !== BACKEND_STATE.FREE &&
    view.getUint32(at + backendServiceOffset(family), true) === serviceId &&
    view.getUint16(at + backendGenerationOffset(family), true) === generation
  );
}

/** Flows of packets that the backend has now: 0 while a count is corrected upwards. */
export function livingFlows(table: ArrayTable, id: number): number {
  const view = table.view(id);
  const at = table.offset(id);
  return Math.max(0, view.getInt32(at, true) + view.getInt32(at + 4, true));
}
