// SPDX-License-Identifier: Apache-2.0
// A program of the benchmark in a sandbox: it is killed with this process, and waiting for its next line fails if
// it exits instead.

import { type Child, start, stop } from '../../../src/sys/exec.ts';
import { insideSandbox, type Sandbox } from '../../../tools/lab/sandbox.ts';

export interface LineChild {
  readonly pid: number;
  writeLine(line: string): void;
  /** Lines of its standard output, in order, each given once. */
  nextLine(): Promise<string>;
  /** Resolves when it has exited; rejects with the last lines of its stderr. */
  ended(): Promise<never>;
  signal(signal: NodeJS.Signals): void;
  stop(): Promise<void>;
}

const COMPLAINTS_KEPT = 20;

export function startChild(
  sandbox: Sandbox,
  argv: readonly string[],
  onComplaint: (line: string) => void = () => undefined,
): LineChild {
  const lines: string[] = [];
  const complaints: string[] = [];
  let wake: () => void = () => undefined;
  const [shell = 'sh', ...args] = insideSandbox(sandbox, [
    'setpriv',
    '--pdeathsig',
    'KILL',
    ...argv,
  ]);
  const child: Child = start(shell, args, {
    onStdoutLine: (line) => {
      lines.push(line);
      wake();
    },
    onStderrLine: (line) => {
      complaints.push(line);
      if (complaints.length > COMPLAINTS_KEPT) complaints.shift();
      onComplaint(line);
    },
  });
  child.exited.then(() => wake());
  const failure = (): Error => new Error(`${sandbox.name} ended: ${complaints.join('\n')}`);
  const nextLine = async (): Promise<string> => {
    while (lines.length === 0) {
      if (child.hasExited()) throw failure();
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return lines.shift() ?? '';
  };
  return {
    pid: child.pid,
    writeLine: (line) => void child.writeLine(line),
    nextLine,
    ended: () => child.exited.then(() => Promise.reject(failure())),
    signal: (signal) => child.kill(signal),
    stop: async () => {
      await stop(child);
    },
  };
}
