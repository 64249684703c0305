// SPDX-License-Identifier: Apache-2.0
// Asks the ports of an agent all the time, as probes and load balancers do, and counts what is not answered with status 200.
import { fileURLToPath } from 'node:url';
import { start } from '../../src/sys/exec.ts';
import { insideSandbox, type Sandbox } from '../../tools/lab/sandbox.ts';
import { until } from './until.ts';

const PROGRAM = fileURLToPath(
  new URL('../integration/netns/fixture/ask-ports.mjs', import.meta.url),
);

export interface PortCount {
  readonly asked: number;
  readonly answered: number;
  /** By status or error. */
  readonly others: Readonly<Record<string, number>>;
}

export interface AskedPorts {
  /** By URL. */
  stop(): Promise<Readonly<Record<string, PortCount>>>;
}

/** Resolves when every URL has been answered with 200. */
export async function askPorts(
  sandbox: Sandbox,
  urls: readonly string[],
  everyMs = 10,
): Promise<AskedPorts> {
  const lines: string[] = [];
  const argv = [process.execPath, PROGRAM, String(everyMs), ...urls];
  const [program = '', ...args] = insideSandbox(sandbox, argv);
  const child = start(program, args, {
    onStdoutLine: (line) => lines.push(line),
    onStderrLine: (line) => lines.push(line),
  });
  try {
    await until(() => lines[0] === 'ready', `all of ${urls.join(', ')} are answered`);
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
  return {
    stop: async () => {
      child.writeLine('stop');
      await child.exited;
      return JSON.parse(lines[1] ?? '');
    },
  };
}
