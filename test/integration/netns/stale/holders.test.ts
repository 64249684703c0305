// SPDX-License-Identifier: Apache-2.0
// Stale UDP sockets among many descriptors: of processes that share sockets, and of one that has thousands of files. More
// descriptors of stale sockets than one search lists hide no other socket.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Agent } from '../../../../src/lab/agent.ts';
import { insideSandbox } from '../../../../src/lab/sandbox.ts';
import { type Child, start } from '../../../../src/sys/exec.ts';
import { startOneNode } from '../../../support/node.ts';
import { TIMEOUT_MS, until, untilHolds } from '../../../support/until.ts';
import { udpServices, words } from './udp-services.ts';

const SOURCE = fileURLToPath(new URL('../fixture/shared.c', import.meta.url));

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent | undefined;
let children: Child[] = [];
const { put, answeredBy } = udpServices(() => node);

beforeAll(async () => {
  node = await startOneNode(['a', 'b']);
  put('a');
});
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  await Promise.all(children.map(({ exited }) => exited));
  children = [];
  await agent?.kill();
});
afterAll(() => node?.remove());

interface Shared {
  says(line: string): Promise<string>;
  exchange(): Promise<number>;
}

function shared(sockets: number, processes: number, other: number): Shared {
  const program = join(node.instance.runDir, 'shared');
  if (!existsSync(program)) {
    execFileSync('cc', ['-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror', '-o', program, SOURCE]);
  }
  const lines: string[] = [];
  const [shell = '', ...argv] = insideSandbox(node.sandboxes[0]!, [
    ...[program, ...words('IPv4').map(String)],
    ...[sockets, processes, other].map(String),
  ]);
  const child = start(shell, argv, { onStdoutLine: (line) => lines.push(line) });
  children.push(child);
  const wait = (line: () => string | undefined, what: string): Promise<string> =>
    until(line, { what: `${what}; it printed ${lines}`, timeoutMs: TIMEOUT_MS });
  return {
    says: (wanted) => wait(() => lines.find((line) => line === wanted), wanted),
    exchange: async () => {
      const before = lines.length;
      child.writeLine('again');
      const line = await wait(() => lines[before], 'an exchange over every socket');
      return Number(line.split(' ')[1]);
    },
  };
}

test.each([
  ['1,000 sockets of 40 processes', { sockets: 1_000, processes: 40, other: 0 }],
  ['a process with 15,000 other descriptors', { sockets: 10, processes: 1, other: 15_000 }],
])('%s, and ten of another one', async (_, { sockets, processes, other }) => {
  put('a');
  agent = await node.startAgent();
  await answeredBy('a');
  const many = shared(sockets, processes, other);
  await many.says(`held ${sockets}`);
  const few = shared(10, 1, 0);
  await few.says('held 10');
  put('b');
  await untilHolds(async () => {
    const { staleSockets } = await node.status();
    expect(staleSockets).toMatchObject({ connected: sockets + 10, destroyed: [], left: [] });
  });
  expect([await many.exchange(), await few.exchange()]).toEqual([sockets, 10]);
});
