// SPDX-License-Identifier: Apache-2.0
// Whether this kernel loads the programs that find stale sockets: iterators over maps, which may be refused where other
// iterators are not. Then the agent says so, and destroys none.
import { readFileSync } from 'node:fs';
import { beforeEach } from 'vitest';
import { reasonOf } from '../../../src/errors.ts';
import { openObject } from '../../../src/sys/native.ts';
import { bpfObjectPath } from '../../../src/sys/package.ts';

/** Why not; undefined: it does. */
export function finderRefusal(): string | undefined {
  const object = openObject(readFileSync(bpfObjectPath('find_stale.bpf.o')), { name: 'finder' });
  try {
    object.load();
    return undefined;
  } catch (error) {
    return `the kernel refuses iterators over maps: ${reasonOf(error).split('\n', 1)[0]}`;
  } finally {
    object.close();
  }
}

/** Skips the tests of the suite, with the reason. */
export function skipWithoutFinder(refusal: string | undefined): void {
  beforeEach((context) => {
    if (refusal !== undefined) context.skip(refusal);
  });
}
