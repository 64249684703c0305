// SPDX-License-Identifier: Apache-2.0
// Runs a function in a separate process: in another network namespace, or to see how it exits.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type * as surface from '../../../../native/index.d.ts';

export const addonPath: string =
  process.env['FAIRLEAD_ADDON'] ??
  fileURLToPath(new URL('../../../../build/native/fairlead.node', import.meta.url));

// The child evaluates the function's text, so the function may use only its parameters.
const program = `
const { createRequire } = require('node:module');
const [addon, text, input] = process.argv.slice(1);
const answer = (value) => process.stdout.write(JSON.stringify(value) + '\\n');
const run = (0, eval)('(' + text + ')');
Promise.resolve().then(() => run(require(addon), JSON.parse(input), require)).then(
  (value) => answer({ value }),
  (error) => answer({ error: error.stack }),
);
`;

export interface ChildEnd {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

export type ChildBody<Input, Output> = (
  native: typeof surface,
  input: Input,
  require: NodeJS.Require,
) => Output | Promise<Output>;

/** Runs it until it exits, in any way. */
export function endOfChild<Input>(
  body: ChildBody<Input, unknown>,
  input: Input,
  netns?: string,
  env: Readonly<Record<string, string>> = {},
): Promise<ChildEnd> {
  const node = [process.execPath, '-e', program, addonPath, body.toString(), JSON.stringify(input)];
  const [command = '', ...args] =
    netns === undefined ? node : ['nsenter', `--net=${netns}`, ...node];
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 60_000,
      env: { ...process.env, ...env },
    });
    const text = { stdout: '', stderr: '' };
    child.stdout.on('data', (bytes) => {
      text.stdout += bytes;
    });
    child.stderr.on('data', (bytes) => {
      text.stderr += bytes;
    });
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, ...text }));
  });
}

/** Returns the function's result or throws its error. */
export async function inChild<Input, Output>(
  body: ChildBody<Input, Output>,
  input: Input,
  netns?: string,
): Promise<Output> {
  const end = await endOfChild(body, input, netns);
  const last = end.stdout.trim().split('\n').at(-1) ?? '';
  if (end.code !== 0 || last === '') {
    throw new Error(`child ended with ${end.code ?? end.signal}: ${end.stderr}`);
  }
  const answer = JSON.parse(last) as { value: Output; error?: string };
  if (answer.error !== undefined) throw new Error(`in the child: ${answer.error}`);
  return answer.value;
}
