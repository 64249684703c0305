// SPDX-License-Identifier: Apache-2.0
// A long-running program of the control plane: started in a sandbox, with its last lines of output kept, and
// killed when this process ends for any reason.

import { type Child, start, stop } from '../../../../src/sys/exec.ts';
import { insideSandbox, type Sandbox } from '../../../../tools/lab/sandbox.ts';
import { pause } from '../../../support/pause.ts';
import { until } from '../../../support/until.ts';

const LINES_KEPT = 400;
const STOP_GRACE_MS = 60_000;

export interface Program {
  readonly name: string;
  readonly pid: number;
  isRunning(): boolean;
  /** The last lines it printed. */
  tail(lines?: number): string;
  /** Sends SIGTERM, then SIGKILL. Succeeds if it has already exited. */
  stop(): Promise<void>;
  /** SIGKILL; returns when it is gone. */
  kill(): Promise<void>;
  /** SIGSTOP; returns when no thread of it runs any more. */
  pause(): Promise<void>;
  /** SIGCONT. */
  resume(): void;
}

export function startProgram(sandbox: Sandbox, name: string, argv: readonly string[]): Program {
  const lines: string[] = [];
  const keep = (line: string): void => {
    lines.push(line);
    if (lines.length > LINES_KEPT) lines.shift();
  };
  // The kernel kills it when we die, even by SIGKILL; the next run removes anything else that is left.
  const tied = insideSandbox(sandbox, ['setpriv', '--pdeathsig', 'KILL', ...argv]);
  const [shell = 'sh', ...args] = tied;
  const child = start(shell, args, { onStdoutLine: keep, onStderrLine: keep });
  return {
    name,
    pid: child.pid,
    isRunning: () => !child.hasExited(),
    tail: (count = 15) => lines.slice(-count).join('\n'),
    stop: async () => {
      await stop(child, STOP_GRACE_MS);
    },
    kill: () => kill(child),
    pause: () => pause(child),
    resume: () => child.kill('SIGCONT'),
  };
}

/** Waits until a program answers; fails at once, with its output, if it exits instead. */
export async function untilReady(
  program: Program,
  ask: () => Promise<boolean>,
  timeoutMs = 60_000,
): Promise<void> {
  const outcome = await until(
    async () => {
      if (!program.isRunning()) return 'ended';
      return (await ask()) ? 'ready' : undefined;
    },
    { what: `${program.name} is ready`, timeoutMs },
  ).catch((cause: unknown) => {
    throw new Error(`${program.name} is not ready:\n${program.tail()}`, { cause });
  });
  if (outcome === 'ended') throw new Error(`${program.name} ended:\n${program.tail()}`);
}

async function kill(child: Child): Promise<void> {
  child.kill('SIGKILL');
  await child.exited;
}
