// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ELF_BYTES, processorOf } from '../../../src/lib/processor.ts';

const header = (machine: number, magic = '\x7fELF'): Uint8Array => {
  const bytes = new Uint8Array(ELF_BYTES);
  bytes.set(Buffer.from(magic, 'latin1'));
  bytes.set([machine & 0xff, machine >> 8], 18);
  return bytes;
};

test.each([
  ['a library for amd64', header(62), 'x64'],
  ['a library for arm64', header(183), 'arm64'],
  ['a BPF object', header(247), undefined],
  ['a text', header(62, '#!/b'), undefined],
  ['an empty file', new Uint8Array(), undefined],
])('%s', (_what, bytes, processor) => {
  expect(processorOf(bytes)).toBe(processor);
});

test('Node itself', () => {
  expect(processorOf(readFileSync(process.execPath).subarray(0, ELF_BYTES))).toBe(process.arch);
});
