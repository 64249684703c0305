// SPDX-License-Identifier: Apache-2.0
// Starts the compiled program in a node's namespace with exactly the arguments and permissions a test gives, as
// a DaemonSet would.

import { start, stop } from '../../../../src/sys/exec.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import type { TestNode } from '../../../support/node.ts';
import { until } from '../../../support/until.ts';

export interface Launched {
  readonly log: readonly string[];
  readonly exited: Promise<number>;
  /** Waits for a line of the log that has this text, and returns it. */
  said(text: string, timeoutMs?: number): Promise<string>;
  kill(signal: NodeJS.Signals): void;
  stop(): Promise<number>;
}

/** @param limits a wrapper command that drops privileges, with its arguments */
export function launch(
  node: TestNode,
  args: readonly string[],
  limits: readonly string[] = [],
): Launched {
  const { sandbox } = node.instance;
  const argv = [...limits, process.execPath, compiledPath('main.js'), ...args];
  const [shell = 'sh', ...rest] = insideSandbox(sandbox, argv);
  const log: string[] = [];
  const keep = (line: string): void => void log.push(line);
  const child = start(shell, rest, { onStderrLine: keep, onStdoutLine: keep });
  const said = async (text: string, timeoutMs = 60_000): Promise<string> => {
    try {
      return await until(() => log.find((line) => line.includes(text)), { what: text, timeoutMs });
    } catch (cause) {
      throw new Error(`the log lacks ${text}; it ends with:\n${log.slice(-8).join('\n')}`, {
        cause,
      });
    }
  };
  return {
    ...{ log, said },
    exited: child.exited,
    kill: (signal) => child.kill(signal),
    stop: () => stop(child),
  };
}
