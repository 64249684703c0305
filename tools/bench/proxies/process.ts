// SPDX-License-Identifier: Apache-2.0
// A proxy as a process in a cgroup of its own, which holds only the proxy and the programs that it runs.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { start, stop } from '../../../src/sys/exec.ts';
import { cpuSeconds, residentBytes } from '../../lab/account.ts';
import { insideSandbox, type Sandbox } from '../../lab/sandbox.ts';

export interface ProxyProcess {
  /** On the clock of process.hrtime. */
  readonly startedNs: number;
  /** Since its start, with all programs that it has run. */
  cpuSeconds(): number;
  residentBytes(): { readonly peak: number; readonly now: number };
  isRunning(): boolean;
  /** The end of its log. */
  tail(): string;
  /** SIGTERM; what it programmed stays. */
  stop(): Promise<void>;
}

const LINES_KEPT = 15;
/** Of rules, a proxy may have ten thousands to write before it can end. */
const STOP_MS = 60_000;

export const clockNs = (): number => Number(process.hrtime.bigint());

export function startProcess(sandbox: Sandbox, argv: readonly string[]): ProxyProcess {
  const lines: string[] = [];
  const keep = (line: string): void => {
    lines.push(line);
    if (lines.length > LINES_KEPT) lines.shift();
  };
  const tied = insideSandbox(sandbox, ['setpriv', '--pdeathsig', 'KILL', ...argv]);
  const [shell = 'sh', ...args] = tied;
  const before = cpuSeconds(sandbox.cgroup);
  const startedNs = clockNs();
  const child = start(shell, args, { onStdoutLine: keep, onStderrLine: keep });
  return {
    startedNs,
    cpuSeconds: () => cpuSeconds(sandbox.cgroup) - before,
    residentBytes: () => residentBytes(child.pid),
    isRunning: () => !child.hasExited(),
    tail: () => lines.join('\n'),
    stop: async () => {
      await stop(child, STOP_MS);
      // A tool that it has started may run for minutes.
      writeFileSync(join(sandbox.cgroup, 'cgroup.kill'), '1');
    },
  };
}
