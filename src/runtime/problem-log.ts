// SPDX-License-Identifier: Apache-2.0
// One warning when a problem appears, one line when it clears, silence while it stays. Floor 5.
import type { Logger } from '../log.ts';
import { type Problem, problemText } from './status.ts';

/** @returns a function that takes every problem there is now */
export function createProblemLog(log: Logger): (problems: readonly Problem[]) => void {
  let known = new Map<string, Problem>();
  return (problems) => {
    const now = new Map(problems.map((problem) => [problemText(problem), problem]));
    for (const [text, problem] of now) {
      if (!known.has(text)) log.warn({ ...problem }, 'input refused');
    }
    for (const [text, { object, file }] of known) {
      if (!now.has(text)) log.info({ object, file, problem: text }, 'refused input was mended');
    }
    known = now;
  };
}
