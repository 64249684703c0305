// SPDX-License-Identifier: Apache-2.0
// `cleanup --drain` waits until another proxy serves this node: its Pod is ready before it has written its rules, and those that
// it left when it was stopped name Pods that are gone.
import { setTimeout as delay } from 'node:timers/promises';
import { formatDuration } from '../../config/duration.ts';
import { judge, judgementText } from '../../engines/kube-proxy/serving/judge.ts';
import { FairleadError } from '../../errors.ts';
import { ownPrograms, readServed, type ServedHere } from '../../instance/leftovers/others.ts';
import { syncedFamilies } from '../../instance/preflight/kube-proxy-sync.ts';
import type { Family } from '../../model/types.ts';
import { print } from '../output.ts';

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
  const served = await readServed();
  return foundIn({ engines, programs, served, synced: await syncedFamilies() });
}

const OTHER_VERSION = 'the programs are those of another version of fairlead, and are not compared';

const byMetrics = (isServed: boolean): Found => ({
  isServed,
  text: `${OTHER_VERSION}: kube-proxy's metrics ${isServed ? 'say' : 'do not say'} that it has synced since it started`,
});

interface Look {
  readonly engines: readonly string[];
  readonly programs: ReturnType<typeof ownPrograms>;
  readonly served: ServedHere;
  readonly synced: ReadonlySet<Family>;
}

export function foundIn({ engines, programs, served, synced }: Look): Found {
  const { own, others, unread } = served;
  const hasRules = engines.includes('iptables');
  // What fairlead serves by rules that were not read would be missed by nobody.
  if (hasRules && unread.length > 0) return { isServed: false, text: unread.join('; ') };
  if (programs === undefined) return byMetrics(synced.size > 0);
  const judgements = judge([...programs, ...(hasRules ? own : [])], others, synced);
  const isServed = judgements.every((one) => one.isServed);
  const texts = [...judgements.map(judgementText), ...(isServed ? [] : unread)];
  return { isServed, text: texts.join('; ') };
}
