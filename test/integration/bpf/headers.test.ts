// SPDX-License-Identifier: Apache-2.0
// Every header compiles alone, so that it can be included without others before it.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const bpf = fileURLToPath(new URL('../../../bpf', import.meta.url));

test('every header compiles alone', () => {
  const { status, stdout, stderr } = spawnSync('make', ['-k', '-s', '-C', bpf, 'headers'], {
    encoding: 'utf8',
  });
  expect(`${stdout}${stderr}`).toBe('');
  expect(status).toBe(0);
}, 120_000);

test('the headers of every folder are among them', () => {
  const of = (arguments_: readonly string[]): readonly string[] =>
    spawnSync('sh', ['-c', arguments_.join(' ')], { cwd: bpf, encoding: 'utf8' })
      .stdout.split('\n')
      .filter((line) => line.endsWith('.h'))
      .sort();
  const compiled = of([
    'make',
    '-n',
    'headers',
    '|',
    'sed',
    '-n',
    `'s/^echo .#include "\\(.*\\)".*/\\1/p'`,
  ]);
  expect(compiled).toEqual(of(['find', 'common', 'packet', 'socket', '-name', "'*.h'"]));
});
