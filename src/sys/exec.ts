// SPDX-License-Identifier: Apache-2.0
// Other programs: run one to its end, or start one and read its lines. The only file that imports
// node:child_process. Arguments are arrays: nothing here goes through a shell unless the caller names one.
// Knows nothing of Services, namespaces or cgroups.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { constants } from 'node:os';
import { createInterface } from 'node:readline';

export interface RunOptions {
  readonly stdin?: string;
  /** The program is killed after this long and reported with code 124, as timeout(1) does. */
  readonly timeoutMs?: number;
}

/** `code`: exit code; 128 + n after signal n; 124 after a time-out; 127 if it could not be started. */
export interface RunResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
}

const DEFAULT_TIMEOUT_MS = 30_000;
/**
 * Children get process groups of their own: Ctrl-C in a terminal is for us alone, and we end them in an
 * order that makes sense.
 */
const SPAWN_OPTIONS = { stdio: 'pipe', detached: true } as const;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

/** Runs a program to its end. Never throws: a program that cannot start is a result too. */
export function run(
  program: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<RunResult> {
  return new Promise((resolve) => {
    const child = spawn(program, args, SPAWN_OPTIONS);
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      child.kill('SIGKILL');
    }, options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    const finish = (code: number, failure = ''): void => {
      clearTimeout(timer);
      resolve({ stdout: text(stdout), stderr: text(stderr) + failure, code });
    };
    child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
    child.on('error', (error) => finish(127, error.message));
    child.on('close', (code, signal) => finish(isLate ? 124 : exitCode(code, signal)));
    // A program may end without reading its input: its exit code tells the story, not our EPIPE.
    child.stdin.on('error', () => undefined);
    child.stdin.end(options.stdin ?? '');
  });
}

/** The same, blocking: for clean-up in a process that is already on its way out. */
export function runSync(
  program: string,
  args: readonly string[],
  options: RunOptions = {},
): RunResult {
  const ended = spawnSync(program, args, {
    ...SPAWN_OPTIONS,
    input: options.stdin ?? '',
    timeout: options.timeoutMs ?? DEFAULT_TIMEOUT_MS,
    killSignal: 'SIGKILL',
    encoding: 'utf8',
    maxBuffer: MAX_OUTPUT_BYTES,
  });
  const { error } = ended;
  if (error === undefined) {
    return {
      stdout: ended.stdout,
      stderr: ended.stderr,
      code: exitCode(ended.status, ended.signal),
    };
  }
  const code = 'code' in error && error.code === 'ETIMEDOUT' ? 124 : 127;
  return { stdout: ended.stdout ?? '', stderr: (ended.stderr ?? '') + error.message, code };
}

export interface StartOptions {
  readonly onStdoutLine?: (line: string) => void;
  readonly onStderrLine?: (line: string) => void;
}

/** A long-lived program. `exited` settles once, after its last line was delivered, and never rejects. */
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
  const child = spawn(program, args, SPAWN_OPTIONS);
  const exited = new Promise<number>((resolve) => {
    child.on('error', () => resolve(127));
    child.on('close', (code, signal) => resolve(exitCode(code, signal)));
  });
  child.stdin.on('error', () => undefined);
  createInterface({ input: child.stdout }).on('line', options.onStdoutLine ?? (() => undefined));
  createInterface({ input: child.stderr }).on('line', options.onStderrLine ?? (() => undefined));
  const { pid } = child;
  if (pid === undefined) throw new Error(`cannot start ${program}: is it installed?`);
  return {
    pid,
    exited,
    hasExited: () => hasEnded(child),
    writeLine: (line) => child.stdin.writable && child.stdin.write(`${line}\n`),
    // Only while we still hold the unreaped child: afterwards the number may be someone else's.
    kill: (signal) => {
      if (!hasEnded(child)) child.kill(signal);
    },
  };
}

/** Asks a child to end, insists after `graceMs`, and returns its exit code. */
export async function stop(child: Child, graceMs = 5_000): Promise<number> {
  child.kill('SIGTERM');
  const insist = setTimeout(() => child.kill('SIGKILL'), graceMs);
  const code = await child.exited;
  clearTimeout(insist);
  return code;
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function exitCode(code: number | null, signal: NodeJS.Signals | null): number {
  return code ?? 128 + (signal === null ? 0 : constants.signals[signal]);
}

function text(chunks: readonly Buffer[]): string {
  return Buffer.concat(chunks).toString('utf8');
}
