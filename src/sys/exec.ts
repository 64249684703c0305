// SPDX-License-Identifier: Apache-2.0
// Runs programs to their end, or starts them and reads their output by line. The only file that starts programs.
// Arguments are arrays and are not passed through a shell.
import {
  type ChildProcess,
  type SpawnOptions,
  type SpawnSyncReturns,
  spawn,
  spawnSync,
} from 'node:child_process';
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

export interface RunOptions {
  readonly stdin?: string;
  /** The program is killed after this long and reported with code 124, as timeout(1) does. */
  readonly timeoutMs?: number;
  /** It is killed when this process ends, however that is: nothing it does may come after that. */
  readonly endsWithUs?: true;
}

/** `code`: exit code; 128 + n after signal n; 124 after a timeout; 127 if it could not be started. */
export interface RunResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
}

const DEFAULT_TIMEOUT_MS = 30_000;
/** Less than the longest string of V8. What 20,000 Services are in iptables-save is a quarter of it. */
const MAX_OUTPUT_BYTES = 400 * 1024 * 1024;

/** Runs a program to its end. Never throws: a program that cannot start is a result too. */
export async function run(
  program: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<RunResult> {
  if (options.endsWithUs !== true) return runChild([program, ...args], options);
  return runChild([...(await endingWithUs()), program, ...args], options);
}

/**
 * Children get their own process groups: Ctrl-C in a terminal reaches only this process, which then ends them
 * in order.
 */
function runChild(argv: readonly string[], options: RunOptions): Promise<RunResult> {
  const { stdin = '', timeoutMs = DEFAULT_TIMEOUT_MS, endsWithUs = false } = options;
  return new Promise((resolve) => {
    const child = spawnOrFail(argv, { detached: !endsWithUs });
    if (child instanceof Error) {
      resolve(notStarted(child));
      return;
    }
    const output = [collect(child, child.stdout), collect(child, child.stderr)] as const;
    let isTimedOut = false;
    const timer = setTimeout(() => {
      isTimedOut = true;
      child.kill('SIGKILL');
      // Its own children may keep them open.
      for (const stream of [child.stdout, child.stderr]) stream?.destroy();
    }, timeoutMs);
    const end = (result: RunResult): void => {
      clearTimeout(timer);
      tied.delete(child);
      resolve(result);
    };
    child.once('error', (error) => end(notStarted(error)));
    child.once('close', (code, signal) => {
      const [stdout, stderr] = output.map((text) => text());
      end({
        stdout: stdout ?? '',
        stderr: stderr ?? '',
        code: isTimedOut ? 124 : exitCode(code, signal),
      });
    });
    if (endsWithUs) tied.add(child);
    child.stdin?.on('error', () => undefined).end(stdin); // It need not read to the end.
  });
}

/** Some errors are thrown, others are events. */
function spawnOrFail(
  [program = '', ...args]: readonly string[],
  options: SpawnOptions,
): ChildProcess | Error {
  try {
    return spawn(program, args, options);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

const notStarted = ({ message }: Error): RunResult => ({ stdout: '', stderr: message, code: 127 });

/** A program that prints more than can be kept is killed. */
function collect(child: ChildProcess, stream: Readable | null): () => string {
  const parts: Buffer[] = [];
  let bytes = 0;
  stream?.on('data', (part: Buffer) => {
    bytes += part.length;
    if (bytes > MAX_OUTPUT_BYTES) child.kill('SIGKILL');
    else parts.push(part);
  });
  return () => Buffer.concat(parts).toString();
}

/** What run() has started with `endsWithUs`. */
const tied = new Set<ChildProcess>();
const END_MS = 2_000;
const LOOK_MS = 2;

/** Kills programs that end with this process and waits for their end: what they do comes before what the caller does next. */
export function endTied(): void {
  for (const child of tied) child.kill('SIGKILL');
  const deadline = performance.now() + END_MS;
  while ([...tied].some(isRunning) && performance.now() < deadline) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOOK_MS);
  }
}

/** It cannot be reaped here, as the event loop waits. */
function isRunning({ pid, exitCode, signalCode }: ChildProcess): boolean {
  if (pid === undefined || exitCode !== null || signalCode !== null) return false;
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** For who will run something that ends with this process, and does something else until then. */
export const prepareTied = (): void => void endingWithUs();

const PARENT_DEATH = ['setpriv', '--pdeathsig', 'KILL'] as const;
let parentDeath: Promise<readonly string[]> | undefined;

/** After a SIGKILL only the kernel can end it. Without setpriv(1) of util-linux (BusyBox's cannot) it goes on then. */
const endingWithUs = (): Promise<readonly string[]> => {
  const [setpriv, ...args] = PARENT_DEATH;
  parentDeath ??= runChild([setpriv, ...args, 'true'], {}).then(({ code }) =>
    code === 0 ? PARENT_DEATH : [],
  );
  return parentDeath;
};

/** What Ctrl-C or the end of a terminal, or of a job, sends to a process group. */
const SENT_TO_GROUPS: readonly (string | null)[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/**
 * Blocking, for clean-up in an exit handler. setsid(1) creates the process group, which spawnSync cannot do: a signal for the group
 * of this process may come just before, so a program that such a signal ends is run once more.
 */
export function runSync(
  program: string,
  args: readonly string[],
  options: RunOptions = {},
): RunResult {
  const first = spawnBlocking(program, args, options);
  return resultOf(
    SENT_TO_GROUPS.includes(first.signal) ? spawnBlocking(program, args, options) : first,
  );
}

const spawnBlocking = (
  program: string,
  args: readonly string[],
  { stdin = '', timeoutMs = DEFAULT_TIMEOUT_MS }: RunOptions,
): SpawnSyncReturns<string> =>
  spawnSync('setsid', [program, ...args], {
    ...{ input: stdin, timeout: timeoutMs, killSignal: 'SIGKILL', encoding: 'utf8' },
    maxBuffer: MAX_OUTPUT_BYTES,
  });

function resultOf({ error, stdout, stderr, status, signal }: SpawnSyncReturns<string>): RunResult {
  // EPIPE: it did not read its input to the end, which is no failure.
  if (error !== undefined && status === null && signal === null) return notStarted(error);
  const isTimedOut = error !== undefined && 'code' in error && error.code === 'ETIMEDOUT';
  return { stdout, stderr, code: isTimedOut ? 124 : exitCode(status, signal) };
}

const exitCode = (code: number | null, signal: string | null): number =>
  code ?? (signal === null ? 127 : 128 + signalNumber(signal));

function signalNumber(signal: string): number {
  const numbers: Readonly<Record<string, number>> = constants.signals;
  return numbers[signal] ?? 0;
}

export interface StartOptions {
  readonly onStdoutLine?: (line: string) => void;
  readonly onStderrLine?: (line: string) => void;
}

/** A long-lived program. `exited` resolves after its last line was delivered and never rejects. */
export interface Child {
  readonly pid: number;
  readonly exited: Promise<number>;
  hasExited(): boolean;
  /** False if its input is closed. */
  writeLine(line: string): boolean;
  kill(signal: NodeJS.Signals): void;
}

/** Starts a program and delivers what it prints line by line. Throws if it cannot be started. */
export function start(program: string, args: readonly string[], options: StartOptions = {}): Child {
  const child = spawn(program, args, { detached: true });
  child.once('error', () => undefined); // Without a pid, which is looked at below.
  const deliver = async (
    stream: Readable,
    onLine: (line: string) => void = () => undefined,
  ): Promise<void> => {
    for await (const line of createInterface({
      input: stream,
      crlfDelay: Number.POSITIVE_INFINITY,
    }))
      onLine(line);
  };
  const ended = new Promise<number>((resolve) => {
    child.once('close', (code, signal) => resolve(exitCode(code, signal)));
  });
  const exited = Promise.all([
    ended,
    deliver(child.stdout, options.onStdoutLine),
    deliver(child.stderr, options.onStderrLine),
  ]).then(([code]) => code);
  child.stdin.on('error', () => undefined);
  const { pid } = child;
  if (pid === undefined) throw new Error(`cannot start ${program}: is it installed?`);
  const hasExited = (): boolean => child.exitCode !== null || child.signalCode !== null;
  return {
    pid,
    exited,
    hasExited,
    writeLine: (line) => {
      if (!child.stdin.writable) return false;
      child.stdin.write(`${line}\n`); // False would only mean that it waits in a buffer.
      return true;
    },
    // Only until the child is reaped: afterwards its pid may be reused.
    kill: (signal) => void (hasExited() || child.kill(signal)),
  };
}

/** Sends SIGTERM to a child, SIGKILL after `graceMs`, and returns its exit code. */
export async function stop(child: Child, graceMs = 20_000): Promise<number> {
  child.kill('SIGTERM');
  const insist = setTimeout(() => child.kill('SIGKILL'), graceMs);
  const code = await child.exited;
  clearTimeout(insist);
  return code;
}
