// SPDX-License-Identifier: Apache-2.0
// Virtual machines with Debian's kernels and the files of this machine (scripts/kernels/guest). Their clock counts instructions, so that
// what runs there sees a machine of normal speed however long it takes here: no time-out needs to be longer.
//
//   const guest = await guestOf('5.10');                       booted once for all files of the stage, and kept
//   const guest = await bootGuest('6.1', ['nocgroup2']);       one of its own, with words for its kernel's command line
//   await guest.run('links', 'ip link');                       a shell script in the root of the tree, as root
//   const tests = await runVitest(guest, { files: […] });      vitest.ts: test files there, and a test here for each of theirs
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Child, start } from '../../../src/sys/exec.ts';
import { packageRoot } from '../../../src/sys/package.ts';

export const ALL_KERNELS = ['5.10', '6.1', '6.12'] as const;
export type Kernel = (typeof ALL_KERNELS)[number];
/** FAIRLEAD_KERNEL names one: each kernel has a lane of its own in the stage. */
export const KERNELS = ALL_KERNELS.filter((one) => (process.env['FAIRLEAD_KERNEL'] ?? one) === one);

/** Whether it has the atomic instructions of the packet programs (Linux 5.12): else packets are served by rules. */
export const hasPackets = (kernel: Kernel): boolean => kernel !== '5.10';

export interface Guest {
  /** `Linux 5.10 nocgroup2`. */
  readonly name: string;
  readonly kernel: Kernel;
  /** `uname -r`. */
  readonly release: string;
  /** Shared with the virtual machine, under the same path. */
  readonly folder: string;
  /** A shell script; its output is what it prints on both streams. @param what it is called where its time is printed */
  run(what: string, script: string): Promise<{ readonly code: number; readonly output: string }>;
  stop(): Promise<void>;
}

/** Far more than on a machine with other work. What runs there is bounded by scripts/kernels/guest, by no time of this machine. */
const BOOT_MS = 1_800_000;
const booted = new Map<Kernel, Promise<Guest>>();

export function guestOf(kernel: Kernel): Promise<Guest> {
  const guest = booted.get(kernel) ?? bootGuest(kernel);
  booted.set(kernel, guest);
  return guest;
}

/** In each of them, at the same time. */
export async function onEach<T>(
  work: (guest: Guest) => Promise<T>,
): Promise<readonly (readonly [kernel: Kernel, result: T])[]> {
  return Promise.all(
    KERNELS.map(async (kernel) => [kernel, await work(await guestOf(kernel))] as const),
  );
}

/** @param words e.g. `nocgroup2`, `without=sch_ingress,overlay`, `ipv6.disable=1`: see init.c */
export async function bootGuest(kernel: Kernel, words: readonly string[] = []): Promise<Guest> {
  const name = ['Linux', kernel, ...words].join(' ');
  const folder = join(packageRoot(), 'build/test/kernels', name.replaceAll(/[^\w.]+/g, '-'));
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const console = startConsole(name, [
    join(packageRoot(), 'scripts/kernels/guest'),
    kernel,
    folder,
    ...words,
  ]);
  const clock = startClock(name);
  const isBooted = clock('boot');
  const [, release = ''] = await console.answer(/^@ready (\S+)/, BOOT_MS);
  isBooted();
  let last = 0;
  return {
    ...{ name, kernel, release, folder },
    run: async (what, script) => {
      last += 1;
      writeFileSync(join(folder, `${last}.sh`), script);
      const isDone = clock(what);
      console.child.writeLine(String(last));
      const [, code] = await console.answer(new RegExp(`^@done ${last} (\\d+)`));
      isDone();
      return { code: Number(code), output: readFileSync(join(folder, `${last}.log`), 'utf8') };
    },
    stop: async () => {
      console.child.kill('SIGTERM');
      await console.child.exited;
    },
  };
}

/** Each part begins with a call; what that returns prints how long it took, and how long ago the first one began. */
function startClock(name: string): (what: string) => () => void {
  const first = performance.now();
  return (what) => {
    const begun = performance.now();
    return () => {
      const [part, all] = [begun, first].map((ms) => Math.round((performance.now() - ms) / 1000));
      process.stdout.write(`${name}: ${what} ${part} s, since its start ${all} s\n`);
    };
  };
}

interface Console {
  readonly child: Child;
  /** Waits for a line; fails with the last lines if there is none in time, or if the virtual machine ends. */
  answer(pattern: RegExp, timeoutMs?: number): Promise<RegExpExecArray>;
}

function startConsole(name: string, argv: readonly string[]): Console {
  const lines: string[] = [];
  let onLine: (line: string) => void = () => undefined;
  const keep = (line: string): void => {
    lines.push(line);
    onLine(line.trim());
  };
  // It ends with this process, whatever that ends by, and other work of the machine goes first.
  const tied = ['--pdeathsig', 'TERM', 'nice', '-n', '10', ...argv];
  const child = start('setpriv', tied, { onStdoutLine: keep, onStderrLine: keep });
  const answer: Console['answer'] = (pattern, timeoutMs) =>
    new Promise((resolve, reject) => {
      const fail = (what: string): void =>
        reject(new Error(`${name} ${what}:\n${lines.slice(-20).join('\n')}`));
      const isLate = (): void => fail(`has not answered in ${timeoutMs} ms`);
      const timer = timeoutMs === undefined ? undefined : setTimeout(isLate, timeoutMs);
      onLine = (line) => {
        const found = pattern.exec(line);
        if (found === null) return;
        clearTimeout(timer);
        resolve(found);
      };
      child.exited.then((code) => {
        clearTimeout(timer);
        fail(`has ended with code ${code}`);
      });
    });
  return { child, answer };
}
