// SPDX-License-Identifier: Apache-2.0
// The count of living flows of each backend (fl_be_flows), which least connections compares. Programs count the flows
// that they make, and those that they end or evict. In case one is lost, each round of the sweep corrects the count of the older
// ones, which were there when it began: it has met some, and of these some may have ended since. The right number is between the
// two. What programs have counted is corrected only if it is not. So an error stays for two rounds at most, 20 seconds.
import type { ArrayTable, Tables } from '../../state/tables.ts';

export interface Recount {
  /**
   * A round is over, and the next one begins.
   * @param isWhole it has come by every flow
   */
  turn(isWhole: boolean): void;
  /** Until the round may come by flows: before, flows may begin that it would not meet. */
  waitMs(): number;
}

export interface RecountOptions {
  readonly tables: Pick<Tables, 'backendFlows'>;
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

export function createRecount({ tables, nowMs }: RecountOptions): Recount {
  const { backendFlows } = tables;
  let beganSeconds = 0;
  const wordsOf = (id: number): Int32Array =>
    wordsAt(backendFlows.view(id), backendFlows.offset(id));
  return {
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

/** Flows of packets that the backend has now: 0 while a count is corrected upwards. */
export function livingFlows(table: ArrayTable, id: number): number {
  const view = table.view(id);
  const at = table.offset(id);
  return Math.max(0, view.getInt32(at, true) + view.getInt32(at + 4, true));
}
