// SPDX-License-Identifier: Apache-2.0
// A program that is spoken to by lines: it prints `ready`, then answers what it is told. It ends when
// its input is closed, and so with the process that started it.

import { start, stop } from '../../src/sys/exec.ts';
import { insideSandbox, type Sandbox } from './sandbox.ts';

export interface LineProgram {
  /** Sends a line; the answer is the next line that is not awaited by an earlier call. */
  exchange(line: string): Promise<string>;
  send(line: string): void;
  stop(): Promise<void>;
}

/** @param onLine lines for which nobody waits */
export async function startLines(
  sandbox: Sandbox,
  argv: readonly string[],
  onLine: (line: string) => void = () => undefined,
): Promise<LineProgram> {
  const waiting: { resolve(line: string): void; reject(error: Error): void }[] = [];
  const said: string[] = [];
  const [shell = 'sh', ...args] = insideSandbox(sandbox, argv);
  const next = (): Promise<string> =>
    new Promise((resolve, reject) => waiting.push({ resolve, reject }));
  const isReady = next();
  const child = start(shell, args, {
    onStdoutLine: (line) => (waiting.shift()?.resolve ?? onLine)(line),
    onStderrLine: (line) => said.push(line),
  });
  child.exited.then((code) => {
    const error = new Error(`${argv[0]} in ${sandbox.name}: code ${code}: ${said.slice(-5)}`);
    for (const { reject } of waiting.splice(0)) reject(error);
  });
  await isReady;
  const send = (line: string): void => {
    if (!child.writeLine(line)) throw new Error(`${argv[0]} in ${sandbox.name} has ended: ${said}`);
  };
  return {
    send,
    exchange: (line) => {
      const answer = next();
      send(line);
      return answer;
    },
    stop: async () => void (await stop(child)),
  };
}
