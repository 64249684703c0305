// SPDX-License-Identifier: Apache-2.0
// Runs the commands that remove what kube-proxy has left.
import { setTimeout as delay } from 'node:timers/promises';
import type { RunProgram } from '../../engines/iptables/kernel/tools.ts';
import type { RemovalStep } from '../../engines/kube-proxy/leftover.ts';
import { run } from '../../sys/exec.ts';

export interface Removal {
  /** `iptables-nft IPv4`, `nft -f -` */
  readonly name: string;
  /** Absent: rules of iptables. */
  readonly step?: RemovalStep;
  /** @returns why it failed */
  run(): Promise<string | undefined>;
}

/** The kernel releases what rules of nf_tables have referred to in the background, within a grace period. */
const RELEASED_MS = 5_000;
const PAUSE_MS = 50;

/** @returns why it failed */
export async function runStep(
  { program, args, stdin, retryWhile }: RemovalStep,
  runProgram: RunProgram = run,
): Promise<string | undefined> {
  const deadlineMs = performance.now() + RELEASED_MS;
  for (;;) {
    const { code, stderr } = await runProgram(program, args, stdin === undefined ? {} : { stdin });
    if (code === 0) return undefined;
    if (code === 127) return `install ${program}`;
    const mayEnd = retryWhile?.test(stderr) === true && performance.now() < deadlineMs;
    if (!mayEnd) return stderr.trim().split('\n').join('; ');
    await delay(PAUSE_MS);
  }
}

/** @returns what failed, and why */
export async function removeInTurn(removals: readonly Removal[]): Promise<readonly string[]> {
  const failures: string[] = [];
  const failed = new Set<string>();
  for (const { name, step, run: remove } of removals) {
    if (step?.after !== undefined && failed.has(step.after)) continue;
    const reason = await remove();
    if (reason === undefined) continue;
    failures.push(`${name}: ${reason}`);
    if (step !== undefined) failed.add(step.program);
  }
  return failures;
}
