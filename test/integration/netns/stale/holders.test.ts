// SPDX-License-Identifier: Apache-2.0
// Many stale UDP sockets and descriptors: of processes that share sockets, of one that has thousands of files, and more
// sockets than the maps have room for at once. None hides another.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type Child, start } from '../../../../src/sys/exec.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { startOneNode } from '../../../support/node.ts';
import { TIMEOUT_MS, until, untilHolds } from '../../../support/until.ts';
import { objectsWithout, withObjects } from './support.ts';
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

const became = (state: object): Promise<void> =>
  untilHolds(async () => expect((await node.status()).staleSockets).toMatchObject(state));

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
  await became({ connected: sockets + 10, destroyed: [], left: [] });
  expect([await many.exchange(), await few.exchange()]).toEqual([sockets, 10]);
});

const MANY = 10_000;
test.each([
  ['connected again', [], { connected: MANY, destroyed: [] }],
  ['destroyed', ['holders.bpf.o'], { connected: 0, destroyed: [{ count: MANY }] }],
  ['destroyed', ['holders.bpf.o', 'destroy.bpf.o'], { connected: 0, destroyed: [{ count: MANY }] }],
])(`${MANY} sockets are all %s, without %j`, async (_, missing, state) => {
  put('a');
  agent = await withObjects(objectsWithout(node, ...missing), () => node.startAgent());
  await answeredBy('a');
  await shared(MANY, 1, 0).says(`held ${MANY}`);
  put('b');
  await became({ ...state, left: [] });
});
