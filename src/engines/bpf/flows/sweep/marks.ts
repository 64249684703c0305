// SPDX-License-Identifier: Apache-2.0
// When marks of addresses (fl_mark) that no connection needs are cleared. A mark tells in which epoch it was set. If many were
// added, the next epoch begins. Each round of the sweep marks the addresses of every connection in it. After some rounds the marks of the
// former epoch are cleared.
import { type ArrayTable, element } from '../../state/tables.ts';

export interface MarkSweepParts {
  /** fl_mark. */
  readonly marks: ArrayTable;
  /** Resolves after every program that runs now has ended. */
  readonly waitGracePeriod: () => Promise<void>;
}

export interface MarkSweep {
  /**
   * A round of the sweep is over.
   * @param isWhole it has come by every connection
   */
  turn(isWhole: boolean): void;
}

/** Rounds between two looks at the marks: ten minutes. */
const LOOK_ROUNDS = 60;
/** A sixteenth of all. Of packets of no connection one in some hundred needs look-ups then. */
const SHARE = 1 / 16;
/** Two would do: the sweep leaves out a record that another CPU is writing. */
export const MARKING_ROUNDS = 5;
const MARKS_PER_WORD = 4;
/** Programs that know the former epoch may still run. */
const NOT_YET = Number.NEGATIVE_INFINITY;

export function createMarkSweep({ marks, waitGracePeriod }: MarkSweepParts): MarkSweep {
  let untilLook = 1;
  /** Marks that were left the last time. */
  let needed = 0;
  /** Whole rounds in this epoch; undefined: nothing is to be cleared. */
  let rounds: number | undefined;
  const begin = (): void => {
    if (countMarks(marks) < needed + SHARE * marks.length * marks.elementSize) return;
    rounds = NOT_YET;
    const epoch = epochOf(marks);
    epoch[0] = 1 - (epoch[0] ?? 0);
    waitGracePeriod().then(
      () => {
        // The round that goes on then does not count.
        rounds = -1;
      },
      () => {
        // The next look tries again.
        rounds = undefined;
      },
    );
  };
  return {
    turn(isWhole) {
      if (rounds !== undefined) {
        rounds = isWhole ? rounds + 1 : Math.min(rounds, 0);
        if (rounds !== MARKING_ROUNDS) return;
        rounds = undefined;
        clearFormer(marks);
        needed = countMarks(marks);
      }
      untilLook -= 1;
      if (untilLook > 0) return;
      untilLook = LOOK_ROUNDS;
      begin();
    },
  };
}

/** In the line behind those of the marks. */
function epochOf(marks: ArrayTable): Uint8Array {
  return element(marks, marks.length - 1);
}

function countMarks(marks: ArrayTable): number {
  let count = 0;
  scanWords(marks, (words) => {
    for (const mark of new Uint8Array(words.buffer, words.byteOffset, words.byteLength)) {
      if (mark !== 0) count += 1;
    }
  });
  return count;
}

/** Clears marks of the former epoch. */
export function clearFormer(marks: ArrayTable): void {
  const now = 1 + (epochOf(marks)[0] ?? 0);
  scanWords(marks, (words) => {
    for (let at = 0; at < words.length; at += 1) clearWord(words, at, now);
  });
}

/** Programs store single marks meanwhile: a word that has changed is read again. */
function clearWord(words: Int32Array, at: number, now: number): void {
  for (;;) {
    const word = Atomics.load(words, at);
    const kept = marksOf(word, now);
    if (kept === word || Atomics.compareExchange(words, at, word, kept) === word) return;
  }
}

/** The word without other marks. */
function marksOf(word: number, now: number): number {
  let kept = 0;
  for (let shift = 0; shift < 8 * MARKS_PER_WORD; shift += 8) {
    if (((word >>> shift) & 255) === now) kept |= now << shift;
  }
  return kept;
}

/** Each line of marks. */
function scanWords(marks: ArrayTable, look: (words: Int32Array) => void): void {
  marks.scan(({ buffer, byteOffset }, offset, line) => {
    const length = marks.elementSize / MARKS_PER_WORD;
    if (line < marks.length - 1) look(new Int32Array(buffer, byteOffset + offset, length));
    return false;
  });
}
