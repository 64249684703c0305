// SPDX-License-Identifier: Apache-2.0
// Many exchanges: a burst of a given size, or a load that goes on until it is stopped while other things
// change. Every exchange is a new socket. Runs inside client pods.
import { setTimeout as delay } from 'node:timers/promises';
import { nowMs } from './clock.ts';
import { exchange } from './exchange.ts';
import type { Answer, LoadFailure, LoadReport, Operations, Tally } from './protocol.ts';

const PROGRESS_INTERVAL_MS = 100;
const MAX_FAILURES_KEPT = 50;

export async function burst(
  request: Operations['burst']['request'],
  onProgress: (done: number) => void,
): Promise<Tally> {
  const startedMs = performance.now();
  const hits: Record<string, number> = {};
  const failures: Record<string, number> = {};
  let begun = 0;
  let done = 0;
  const work = async (): Promise<void> => {
    while (begun < request.connections) {
      begun += 1;
      const answer = await exchange(request.target, request.timeoutMs);
      done += 1;
      if (answer.kind === 'answered') hits[answer.backend] = (hits[answer.backend] ?? 0) + 1;
      else failures[answer.code] = (failures[answer.code] ?? 0) + 1;
    }
  };
  const ticker = setInterval(() => onProgress(done), PROGRESS_INTERVAL_MS);
  await Promise.all(Array.from({ length: request.concurrency }, work));
  clearInterval(ticker);
  return { connections: done, hits, failures, elapsedMs: performance.now() - startedMs };
}

/** A running load; `stop` waits for the exchanges under way, so none is left uncounted. */
export interface Load {
  read(): LoadReport;
  stop(): Promise<LoadReport>;
}

export function startLoad(request: Operations['startLoad']['request']): Load {
  const ledger = openLedger();
  let isStopped = false;
  const work = async (): Promise<void> => {
    while (!isStopped) {
      const begunMs = nowMs();
      ledger.add(begunMs, await exchange(request.target, request.timeoutMs));
      await delay(request.pauseMs);
    }
  };
  const workers = Promise.all(Array.from({ length: request.concurrency }, work));
  return {
    read: ledger.read,
    stop: async () => {
      isStopped = true;
      await workers;
      return ledger.read();
    },
  };
}

function openLedger(): { add(begunMs: number, answer: Answer): void; read(): LoadReport } {
  const startedMs = nowMs();
  const hits: Record<string, { count: number; firstMs: number; lastMs: number }> = {};
  const failures: LoadFailure[] = [];
  let connections = 0;
  let failureCount = 0;
  let lastAnswerMs = startedMs;
  let longestGapMs = 0;
  const add = (begunMs: number, answer: Answer): void => {
    connections += 1;
    if (answer.kind === 'failed') {
      failureCount += 1;
      if (failures.length < MAX_FAILURES_KEPT) failures.push({ atMs: begunMs, code: answer.code });
      return;
    }
    const atMs = nowMs();
    longestGapMs = Math.max(longestGapMs, atMs - lastAnswerMs);
    lastAnswerMs = atMs;
    const seen = hits[answer.backend] ?? { count: 0, firstMs: atMs, lastMs: atMs };
    hits[answer.backend] = { count: seen.count + 1, firstMs: seen.firstMs, lastMs: atMs };
  };
  const read = (): LoadReport => ({
    ...{ startedMs, connections, hits, failureCount, failures },
    longestGapMs: Math.max(longestGapMs, nowMs() - lastAnswerMs),
  });
  return { add, read };
}
