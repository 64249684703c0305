// SPDX-License-Identifier: Apache-2.0
// The driver's side of prober.c.
import { join } from 'node:path';
import { packageRoot } from '../../../src/sys/package.ts';
import type { Sandbox } from '../../../tools/lab/sandbox.ts';
import { fromNanoseconds } from '../clock.ts';
import { type LineChild, startChild } from '../proxies/child.ts';

const PROGRAM = join(packageRoot(), 'build', 'bench', 'prober');

export interface Probe {
  readonly address: string;
  readonly port: number;
  /** The letter of the awaited server; `*` for any. */
  readonly tag: string;
  readonly periodMs: number;
  /** For one connection. */
  readonly patienceMs: number;
  /** For all of them. */
  readonly timeoutMs: number;
}

export interface Reached {
  /** Start and end of the first connection that reached the server. */
  readonly startMs: number;
  readonly endMs: number;
  /** Connection attempts until then, and how many of them failed. */
  readonly connections: number;
  readonly failures: number;
}

export interface Prober {
  /** Resolves after the first attempt; `reached` waits for the right server. */
  begin(probe: Probe): Promise<{ reached(): Promise<Reached> }>;
  stop(): Promise<void>;
}

/** The time was over. */
export class NotReached extends Error {}

/** Makes connections from a pod. */
export function startProber(sandbox: Sandbox): Prober {
  const child = startChild(sandbox, [PROGRAM, 'ask']);
  return {
    begin: async ({ address, port, tag, periodMs, patienceMs, timeoutMs }) => {
      const times = `${Math.round(periodMs * 1000)} ${patienceMs} ${timeoutMs}`;
      child.writeLine(`until ${address} ${port} ${tag} ${times}`);
      const line = await child.nextLine();
      if (line !== 'probing') throw new Error(`prober: ${line}`);
      return { reached: async () => parseReached(await child.nextLine(), address) };
    },
    stop: () => child.stop(),
  };
}

/** Answers connections in a pod with a letter. */
export async function startGreeter(
  sandbox: Sandbox,
  tag: string,
  port: number,
): Promise<LineChild> {
  const child = startChild(sandbox, [PROGRAM, 'serve', tag, String(port)]);
  await child.nextLine();
  return child;
}

function parseReached(line: string, address: string): Reached {
  const [word, start = '', end = '', connections = '', failures = ''] = line.split(' ');
  if (word !== 'reached') throw new NotReached(`no right answer from ${address}: ${line}`);
  return {
    startMs: fromNanoseconds(start),
    endMs: fromNanoseconds(end),
    connections: Number(connections),
    failures: Number(failures),
  };
}
