// SPDX-License-Identifier: Apache-2.0
// Logs a problem when it appears and when it clears. While the API server cannot be watched, a new reason is
// logged only if it persists.
import type { Logger } from '../log.ts';
import { refText } from '../model/object-ref.ts';
import { isOfObject, type Problem, problemText } from '../model/problem.ts';

/** @returns a function to be called with all current problems */
export function createProblemLog(
  log: Pick<Logger, 'info' | 'warn'>,
): (problems: readonly Problem[]) => void {
  const noteObjects = objectLog(log);
  const noteSource = sourceLog(log);
  return (problems) => {
    noteObjects(problems.filter(isOfObject));
    // A source logs its own warnings: what it reads goes on.
    noteSource(problems.filter((problem) => !isOfObject(problem) && problem.isWarning !== true));
  };
}

type Note = (problems: readonly Problem[]) => void;

function objectLog(log: Pick<Logger, 'info' | 'warn'>): Note {
  let known = new Map<string, Problem>();
  return (problems) => {
    const now = new Map(problems.map((problem) => [problemText(problem), problem]));
    for (const [text, problem] of now) {
      if (known.has(text)) continue;
      const { isWarning, isNote, isDelayed, object, ...fields } = problem;
      const level = isNote === true ? 'info' : 'warn';
      log[level]({ object: textOf(object), ...fields }, textsOf(problem).appears);
    }
    for (const [text, problem] of known) {
      if (now.has(text)) continue;
      const { object, file } = problem;
      log.info({ object: textOf(object), file, problem: text }, textsOf(problem).clears);
    }
    known = now;
  };
}

function textsOf({ isWarning, isDelayed }: Problem): {
  readonly appears: string;
  readonly clears: string;
} {
  if (isDelayed === true)
    return {
      appears: 'removal of Services waits',
      clears: 'no removal of Services waits any more',
    };
  return isWarning === true
    ? { appears: 'manifest warning', clears: 'manifest warning cleared' }
    : { appears: 'input rejected', clears: 'rejected input is valid again' };
}

const textOf = (object: Problem['object']): string | undefined =>
  object === undefined ? undefined : refText(object);

/** Longer than the longest retry interval: a starting server refuses connections for a moment. */
const LASTING_MS = 60_000;

function sourceLog(log: Pick<Logger, 'info' | 'warn'>): Note {
  const logged = new Set<string>();
  let latest: readonly Problem[] = [];
  let timer: NodeJS.Timeout | undefined;
  const logLatest = (): void => {
    timer = undefined;
    for (const { reason, kinds } of latest) {
      if (logged.has(reason)) continue;
      logged.add(reason);
      log.warn({ kinds, reason }, 'cannot watch the API server; keeping the last state');
    }
  };
  return (problems) => {
    latest = problems;
    if (problems.length > 0) {
      if (logged.size === 0) logLatest();
      else timer ??= setTimeout(logLatest, LASTING_MS).unref();
      return;
    }
    clearTimeout(timer);
    timer = undefined;
    if (logged.size === 0) return;
    logged.clear();
    log.info('watching the API server again');
  };
}
