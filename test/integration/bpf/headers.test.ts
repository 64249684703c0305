// SPDX-License-Identifier: Apache-2.0
// Every header compiles alone, so that it can be included without others before it.
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const bpf = fileURLToPath(new URL('../../../bpf', import.meta.url));
const headers = [
  'common',
  'socket',
  'packet',
  'packet/flow',
  'packet/answer',
  'packet/conn',
  'packet/conn/client',
  'packet/conn/reply',
].flatMap((folder) =>
  readdirSync(`${bpf}/${folder}`)
    .filter((name) => name.endsWith('.h'))
    .map((name) => `${folder}/${name}`),
);

test.each(headers)('%s compiles alone', (header) => {
  expect(() => execFileSync('make', ['-s', '-C', bpf, `${header}.alone`])).not.toThrow();
});
