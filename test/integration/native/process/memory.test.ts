// SPDX-License-Identifier: Apache-2.0
// The program sets by itself what keeps its memory small: as good as flags of Node at its start, on each version of Node.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { addonPath } from '../support/child.ts';

const SETTINGS = fileURLToPath(
  new URL('../../../../build/js/sys/process/memory.js', import.meta.url),
);
const MIB = 1024 * 1024;

/** A program's standard output, with or without the settings, and with these flags of Node. */
const output = (program: string, isSet: boolean, flags: readonly string[] = []): string =>
  execFileSync(
    process.execPath,
    [
      ...flags,
      '--input-type=module',
      '-e',
      `import { readFileSync } from 'node:fs';
      import v8 from 'node:v8';
      import { keepHeapSmall, keepMallocSmall } from '${SETTINGS}';
      if (${isSet}) { keepHeapSmall(); keepMallocSmall(); }
      ${program}`,
    ],
    { encoding: 'utf8', env: { ...process.env, FAIRLEAD_ADDON: addonPath } },
  );

/** 300,000 objects that stay, then garbage in the old space. */
const CHURN = `
const spaceOfNew = () => v8.getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space').space_size;
const kept = [];
let [mostNew, mostHeap] = [0, 0];
for (let at = 0; at < 300_000; at++) {
  kept.push({ at, pair: [at, at] });
  if (at % 1_000 === 0) mostNew = Math.max(mostNew, spaceOfNew());
}
for (let round = 0; round < 60; round++) {
  const texts = Array.from({ length: 20_000 }, (_, at) => 'text of this round ' + [at, round]);
  mostHeap = Math.max(mostHeap, v8.getHeapStatistics().total_heap_size);
}
console.log(JSON.stringify({ mostNew, mostHeap, kept: kept.length }));`;

describe("V8's heap", () => {
  const measured = (isSet: boolean, flags?: readonly string[]) =>
    JSON.parse(output(CHURN, isSet, flags)) as { mostNew: number; mostHeap: number };

  test('it stays as close to what is alive as with flags at the start', () => {
    const withFlags = measured(false, ['--max-semi-space-size=2', '--heap-growing-percent=35']);
    const withSettings = measured(true);
    expect(withSettings.mostHeap).toBeLessThan(1.1 * withFlags.mostHeap);
    expect(withSettings.mostNew).toBeLessThan(8 * MIB);
    expect(measured(false).mostNew).toBeGreaterThan(16 * MIB);
  });
});

/** A module with one function, which sums the numbers up to its argument: hot enough to be optimized. */
const WEBASSEMBLY = `
const bytes = Uint8Array.from([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 6, 1, 96, 1, 127, 1, 127, 3, 2, 1, 0, 7, 5, 1, 1, 102, 0, 0,
  10, 27, 1, 25, 1, 1, 127, 3, 64, 32, 1, 32, 0, 106, 33, 1, 32, 0, 65, 1, 107, 34, 0, 13, 0, 11, 32, 1, 11,
]);
const { f } = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;
for (let call = 0; call < 3_000; call++) f(100_000);
console.log('called');`;

test('WebAssembly is compiled once, and never optimized', () => {
  const compiled = (isSet: boolean) =>
    output(WEBASSEMBLY, isSet, ['--trace-wasm-compilation-times']);
  expect(compiled(false)).toMatch(/TurboFan/);
  expect(compiled(true)).toMatch(/Liftoff/);
  expect(compiled(true)).not.toMatch(/TurboFan/);
});

/** A large block is freed, and then smaller ones are allocated: how much of them is in the heap, which keeps what is freed. */
const BLOCKS = String.raw`
const heapKib = () => readFileSync('/proc/self/smaps', 'utf8').split(/\n(?=[0-9a-f]+-)/)
  .filter((part) => part.includes('[heap]'))
  .reduce((sum, part) => sum + Number(/^Rss: +(\d+)/m.exec(part)[1]), 0);
let block = Buffer.alloc(20 * ${MIB}, 1);
block = undefined;
gc();
await new Promise((resolve) => setImmediate(resolve));
const before = heapKib();
const blocks = Array.from({ length: 10 }, () => Buffer.alloc(${MIB}, 1));
console.log((heapKib() - before) / 1024, blocks.length);`;

// The sanitizers' malloc has no such option.
test.skipIf(addonPath.includes('asan'))('malloc maps large blocks, and keeps none of them', () => {
  const keptMib = (isSet: boolean) => Number.parseFloat(output(BLOCKS, isSet, ['--expose-gc']));
  expect(keptMib(false)).toBeGreaterThan(8);
  expect(keptMib(true)).toBeLessThan(2);
});
