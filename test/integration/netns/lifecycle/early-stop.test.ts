// SPDX-License-Identifier: Apache-2.0
// An agent that is stopped while its modules are still being loaded: it exits with 0, as docs/errors.md says.
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';

const MAIN = fileURLToPath(new URL('../../../../dist/main.js', import.meta.url));

/** Signals the program when it asks for a module, which it then never gets: only the signal ends it. */
const signalling = (signal: string, module: string): string => {
  const hooks = `export async function load(url, context, next) {
    if (!url.endsWith('${module}')) return next(url, context);
    process.kill(process.pid, '${signal}');
    return new Promise(() => {});
  }`;
  const asUrl = (code: string): string => `data:text/javascript,${encodeURIComponent(code)}`;
  const url = JSON.stringify(asUrl(hooks));
  return asUrl(
    `import { register } from 'node:module'; register(${url}); setInterval(() => {}, 1e3)`,
  );
};

test.each([
  ['SIGTERM', '/parts/program.js'],
  ['SIGTERM', '/parts/run.js'],
  ['SIGINT', '/parts/run.js'],
] as const)('%s while %s is loaded: exits with 0', async (signal, module) => {
  const args = ['--import', signalling(signal, module), MAIN, 'run', '--manifests', '/nowhere'];
  expect(await run(process.execPath, args)).toEqual({ code: 0, stdout: '', stderr: '' });
});

test('other commands end by the signal', async () => {
  const args = ['--import', signalling('SIGTERM', '/parts/status.js'), MAIN, 'status'];
  expect((await run(process.execPath, args)).code).toBe(143);
});
