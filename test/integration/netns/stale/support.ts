// SPDX-License-Identifier: Apache-2.0
// Programs of fixture/held.c in pods, and agents that find and destroy stale sockets in one of the ways.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach } from 'vitest';
import { type Child, start } from '../../../../src/sys/exec.ts';
import { bpfObjectPath } from '../../../../src/sys/package.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { insideSandbox, type Sandbox } from '../../../../tools/lab/sandbox.ts';
import type { TestNode } from '../../../support/node.ts';
import { TIMEOUT_MS, until } from '../../../support/until.ts';

const SOURCE = fileURLToPath(new URL('../fixture/held.c', import.meta.url));

/** How long programs may wait for their error, on a machine with other work: nothing else would ever end their wait. */
export const RECOVERY_MS = TIMEOUT_MS;

/** How sockets are found and destroyed, and the objects whose absence makes an agent do it so. */
const MISSING = {
  bpf_sock_destroy: ['holders.bpf.o'],
  SOCK_DESTROY: ['holders.bpf.o', 'destroy.bpf.o'],
  'found by walking': ['holders.bpf.o', 'find_stale.bpf.o'],
} as const;

export type Way = keyof typeof MISSING;
export const WAYS = Object.keys(MISSING) as readonly Way[];

export interface Program {
  readonly child: Child;
  readonly lines: readonly string[];
  /** Waits for a line. */
  says(line: string | RegExp, timeoutMs?: number): Promise<string>;
  /** Every socket exchanges one more datagram or line, connected `anew` or not; how many were answered. */
  exchange(how?: 'again' | 'anew'): Promise<number>;
}

export function runHeld(
  { instance }: TestNode,
  sandbox: Sandbox,
  words: readonly (string | number)[],
): Program {
  const program = join(instance.runDir, 'held');
  if (!existsSync(program)) {
    const flags = ['-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror'];
    execFileSync('cc', [...flags, '-o', program, SOURCE, '-lresolv']);
  }
  const lines: string[] = [];
  const [shell = '', ...argv] = insideSandbox(sandbox, [program, ...words.map(String)]);
  const child = start(shell, argv, { onStdoutLine: (line) => lines.push(line) });
  const says: Program['says'] = (wanted, timeoutMs = TIMEOUT_MS) =>
    until(
      () =>
        lines.find((line) => (typeof wanted === 'string' ? line === wanted : wanted.test(line))),
      {
        what: `${words.join(' ')} to print ${wanted}; it printed ${lines.join(', ')}`,
        timeoutMs,
      },
    );
  return {
    child,
    lines,
    says,
    exchange: async (how = 'again') => {
      const before = lines.filter((line) => line.startsWith('answered ')).length;
      child.writeLine(how);
      return until(
        () => {
          const line = lines.filter((each) => each.startsWith('answered '))[before];
          return line === undefined ? undefined : Number(line.split(' ')[1]);
        },
        { what: 'an exchange over every socket', timeoutMs: 60_000 },
      );
    },
  };
}

/** Programs of a test, in its first client's sandbox unless told otherwise; they end with the test. */
export function heldPrograms(
  nodeOf: () => TestNode,
): (words: readonly (string | number)[], sandbox?: Sandbox) => Program {
  const programs: Program[] = [];
  afterEach(async () => {
    for (const { child } of programs) child.kill('SIGKILL');
    await Promise.all(programs.splice(0).map(({ child }) => child.exited));
  });
  return (words, sandbox = nodeOf().sandboxes[0]!) => {
    const program = runHeld(nodeOf(), sandbox, words);
    programs.push(program);
    return program;
  };
}

/** `NAME 0`, `NAME 1`, …: errors of the sockets so far. */
export const errorsOf = ({ lines }: Program): readonly string[] =>
  lines.filter((line) => /^[A-Z]+ \d+$/.test(line)).map((line) => line.split(' ')[0] ?? '');

/** BPF objects of which some are missing: what they do is then not done, or done otherwise. */
export function objectsWithout({ instance }: TestNode, ...missing: readonly string[]): string {
  const folder = join(instance.runDir, `without-${missing.join('-')}`);
  mkdirSync(folder, { recursive: true });
  cpSync(dirname(bpfObjectPath('sock.bpf.o')), folder, {
    recursive: true,
    filter: (path) => !missing.some((name) => path.endsWith(name)),
  });
  return folder;
}

/** `start` is called with this folder of BPF objects; undefined: those of the build. */
export async function withObjects<T>(
  folder: string | undefined,
  start: () => Promise<T>,
): Promise<T> {
  const before = process.env['FAIRLEAD_BPF_DIR'];
  if (folder !== undefined) process.env['FAIRLEAD_BPF_DIR'] = folder;
  try {
    return await start();
  } finally {
    if (before === undefined) delete process.env['FAIRLEAD_BPF_DIR'];
    else process.env['FAIRLEAD_BPF_DIR'] = before;
  }
}

export const startWith = (
  node: TestNode,
  way: Way,
  flags: readonly string[] = [],
): Promise<Agent> =>
  withObjects(objectsWithout(node, ...MISSING[way]), () => node.startAgent(flags));
