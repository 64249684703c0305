// SPDX-License-Identifier: Apache-2.0
// `cleanup --drain` waits until another proxy serves this node: its Pod is ready before it has written its rules, and those that
// it left when it was stopped name Pods that are gone.
import { setTimeout as delay } from 'node:timers/promises';
import { syncedFamilies } from '../../agent/preflight/kube-proxy-sync.ts';
import { formatDuration } from '../../config/duration.ts';
import { type Judgement, judge, judgementText } from '../../dataplane/others/judge.ts';
import { FairleadError } from '../../errors.ts';
import { print } from '../output.ts';
import { ownPrograms, readServed } from './others.ts';

export interface WaitOptions {
  readonly bpfRoot: string;
  /** Those of fairlead that serve. */
  readonly engines: readonly string[];
  readonly timeoutMs: number;
}

export interface Found {
  readonly isServed: boolean;
  readonly text: string;
}

const PAUSE_MS = 500;

/** Prints what it waits for, and what it finds. Throws TIMED_OUT: nothing has been changed then. */
export async function waitForOtherProxy(
  options: WaitOptions,
  look: (options: WaitOptions) => Promise<Found> = lookFor,
  pause: (ms: number) => Promise<void> = delay,
): Promise<void> {
  const { timeoutMs } = options;
  const startedMs = performance.now();
  let said = '';
  for (;;) {
    const lookedMs = performance.now();
    const { isServed, text } = await look(options);
    if (isServed) return text === '' ? undefined : print(text);
    if (said === '')
      print(`waiting up to ${formatDuration(timeoutMs)} for another proxy to serve this node`);
    if (text !== said) print(text);
    said = text;
    const leftMs = startedMs + timeoutMs - performance.now();
    if (leftMs <= 0) throw timedOut(timeoutMs, text);
    // A node with many rules is not read all the time.
    const tookMs = performance.now() - lookedMs;
    await pause(Math.min(leftMs, Math.max(PAUSE_MS, tookMs)));
  }
}

const timedOut = (timeoutMs: number, text: string): FairleadError =>
  new FairleadError(
    'TIMED_OUT',
    `no other proxy serves this node after ${formatDuration(timeoutMs)}, so that fairlead's programs and rules stay and serve: ${text}. Start kube-proxy here, or go on without any proxy by --wait-for-proxy=none`,
  );

async function lookFor({ bpfRoot, engines }: WaitOptions): Promise<Found> {
  const programs = engines.includes('bpf') ? ownPrograms(bpfRoot) : [];
  const { own, others } = await readServed();
  const synced = await syncedFamilies();
  if (programs === undefined) return byMetrics(synced.size > 0);
  const rules = engines.includes('iptables') ? own : [];
  return found(judge([...programs, ...rules], others, synced));
}

const OTHER_VERSION = 'the programs are those of another version of fairlead, and are not compared';

const byMetrics = (isServed: boolean): Found => ({
  isServed,
  text: `${OTHER_VERSION}: kube-proxy's metrics ${isServed ? 'say' : 'do not say'} that it has synced since it started`,
});

const found = (judgements: readonly Judgement[]): Found => ({
  isServed: judgements.every(({ isServed }) => isServed),
  text: judgements.map(judgementText).join('; '),
});
