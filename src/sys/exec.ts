// SPDX-License-Identifier: Apache-2.0
// Runs programs to their end, or starts them and reads their output by line. The only file that starts programs.
// Arguments are arrays and are not passed through a shell.
import { constants } from 'node:os';
import { execa, execaSync, type Options } from 'execa';

export interface RunOptions {
  readonly stdin?: string;
  /** The program is killed after this long and reported with code 124, as timeout(1) does. */
  readonly timeoutMs?: number;
  /** It is killed when this process ends, unless by SIGKILL: nothing it does may come after that. */
  readonly endsWithUs?: true;
}

/** `code`: exit code; 128 + n after signal n; 124 after a timeout; 127 if it could not be started. */
export interface RunResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
}

const DEFAULT_TIMEOUT_MS = 30_000;
/**
 * Children get their own process groups: Ctrl-C in a terminal reaches only this process, which then ends them
 * in order.
 */
const COMMON = {
  reject: false,
  detached: true,
  stripFinalNewline: false,
  killSignal: 'SIGKILL',
  forceKillAfterDelay: false,
} as const satisfies Options;
const MAX_OUTPUT_CHARACTERS = 64 * 1024 * 1024;

const toTheEnd = ({ stdin = '', timeoutMs = DEFAULT_TIMEOUT_MS, endsWithUs }: RunOptions) =>
  ({
    ...COMMON,
    detached: endsWithUs !== true,
    input: stdin,
    timeout: timeoutMs,
    maxBuffer: MAX_OUTPUT_CHARACTERS,
  }) as const;

/** Runs a program to its end. Never throws: a program that cannot start is a result too. */
export async function run(
  program: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<RunResult> {
  return resultOf(await execa(program, args, toTheEnd(options)));
}

/**
 * Blocking, for clean-up in an exit handler. setsid(1) creates the process group, because execa supports that
 * only for asynchronous children.
 */
export function runSync(
  program: string,
  args: readonly string[],
  options: RunOptions = {},
): RunResult {
  const { detached: _, forceKillAfterDelay: __, ...settings } = toTheEnd(options);
  return resultOf(execaSync('setsid', [program, ...args], settings));
}

/** The result of a program that has ended or could not be started. */
interface Ended {
  readonly stdout?: string | undefined;
  readonly stderr?: string | undefined;
  readonly exitCode?: number | undefined;
  readonly signal?: string | undefined;
  readonly timedOut: boolean;
  readonly originalMessage?: string | undefined;
}

function resultOf(ended: Ended): RunResult {
  const { stdout = '', stderr = '', originalMessage = '' } = ended;
  const code = exitCode(ended);
  return { stdout, stderr: code === 127 ? stderr + originalMessage : stderr, code };
}

function exitCode({ exitCode: code, signal, timedOut }: Omit<Ended, 'stdout' | 'stderr'>): number {
  if (timedOut) return 124;
  if (code !== undefined) return code;
  return signal === undefined ? 127 : 128 + signalNumber(signal);
}

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
  const child = execa(program, args, { ...COMMON, stdin: 'pipe', buffer: false });
  const deliver = async (
    from: 'stdout' | 'stderr',
    onLine: (line: string) => void = () => undefined,
  ): Promise<void> => {
    for await (const line of child.iterable({ from })) onLine(line);
  };
  const exited = Promise.all([
    child,
    deliver('stdout', options.onStdoutLine),
    deliver('stderr', options.onStderrLine),
  ]).then(([ended]) => exitCode(ended));
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
