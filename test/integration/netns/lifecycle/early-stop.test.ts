// SPDX-License-Identifier: Apache-2.0
// An agent that is stopped while its modules are still being loaded: it exits with 0, as docs/errors.md says.
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';

const MAIN = fileURLToPath(new URL('../../../../dist/main.js', import.meta.url));

/** Signals the program when it reads a file, and lets it go on: only the signal ends it. */
const signalling = (signal: string, file: string): string => {
  const code = `import fs from 'node:fs';
    import { syncBuiltinESMExports } from 'node:module';
    const read = fs.readFileSync;
    fs.readFileSync = (path, ...rest) => {
      if (String(path).endsWith('${file}')) process.kill(process.pid, '${signal}');
      return read(path, ...rest);
    };
    syncBuiltinESMExports();`;
  return `data:text/javascript,${encodeURIComponent(code)}`;
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
  const args = ['--import', signalling('SIGTERM', '/parts/asking.js'), MAIN, 'status'];
  expect((await run(process.execPath, args)).code).toBe(143);
});
