// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { run } from '../../../src/sys/exec.ts';
import { lateOptimizing } from '../../../src/sys/optimizing.ts';

/** The versions of Node differ in when they compile a function, and in how often. */
const CALLS = [300, 500];

/** How often V8 compiles a function that is called so often. */
async function compiled(flags: readonly string[]): Promise<number> {
  let times = 0;
  for (const calls of CALLS) {
    const script = `
      for (const flag of ${JSON.stringify(flags)}) require('node:v8').setFlagsFromString(flag);
      function summed(count) { let sum = 0; for (let i = 0; i < count; i += 1) sum += i % 7; return sum; }
      for (let call = 0; call < ${calls}; call += 1) summed(10);`;
    const tracing = ['--trace-opt', '--no-concurrent-recompilation'];
    const { code, stdout, stderr } = await run(process.execPath, [...tracing, '-e', script]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    times += stdout.match(/completed compiling.*<JSFunction summed /g)?.length ?? 0;
  }
  return times;
}

const version = Number(process.versions.node.split('.')[0]);

test.runIf([20, 22, 24].includes(version))(
  'the flags are known to this version of Node, and functions are compiled later',
  async () => {
    expect(await compiled(lateOptimizing())).toBeLessThan(await compiled([]));
  },
);

test('a version of Node whose flags are not known keeps its own', () => {
  expect(lateOptimizing('25.1.0')).toEqual([]);
});
