// SPDX-License-Identifier: Apache-2.0
// Thousands of clients at once, of one process, each from a port of its own: see many.c.
import { fileURLToPath } from 'node:url';
import { run } from '../../../src/sys/exec.ts';
import { startLines } from '../../../tools/lab/lines.ts';
import { insideSandbox } from '../../../tools/lab/sandbox.ts';
import type { TestNode } from '../node.ts';
import { compiled } from './compiled.ts';

const MANY = compiled(fileURLToPath(new URL('many.c', import.meta.url)));

/** It waits for 30 s for connections, and for 10 s for answers. */
const TIMEOUT_MS = 100_000;

export type ManyProtocol = 'tcp' | 'udp';

/**
 * Clients of a node.
 * @param sources `address` or `address:port`
 * @returns what `many` says: `COUNT 0 0 0` if each has got its own answer
 */
export async function askMany(
  node: TestNode,
  protocol: ManyProtocol,
  [address, port]: readonly [string, number],
  count: number,
  sources: readonly string[],
): Promise<string> {
  const argv = [MANY, 'ask', protocol, address, `${port}`, `${count}`, ...sources];
  const [program = '', ...args] = insideSandbox(node.self, argv);
  const { stdout, stderr } = await run(program, args, { timeoutMs: TIMEOUT_MS });
  return `${stdout.trim()}${stderr}`;
}

/** A backend on `node`, as its first pod of that name: it answers when it has so many clients. */
export async function whileManyServed<T>(
  node: TestNode,
  pod: string,
  [protocol, port, count]: readonly [ManyProtocol, number, number],
  play: (hasBegun: Promise<void>) => Promise<T>,
): Promise<T> {
  const [own] = node.pods(pod);
  if (own === undefined) throw new TypeError(`no pod ${pod}`);
  const sandbox = { ...own, cgroup: node.self.cgroup };
  let begin: () => void = () => undefined;
  const hasBegun = new Promise<void>((resolve) => (begin = resolve));
  const argv = [MANY, 'serve', protocol, own.ipv4, `${port}`, `${count}`];
  const server = await startLines(sandbox, argv, begin);
  try {
    return await play(hasBegun);
  } finally {
    await server.stop();
  }
}
