// SPDX-License-Identifier: Apache-2.0
// Whether this kernel lets anybody load iterators over maps, such as those that find stale sockets by their records: some
// answer EPERM, before they verify a program, where other iterators load. Then the agent walks the sockets of each namespace that
// it may enter. A program that is refused for any other reason is ours to mend, and its tests fail.
import { readFileSync } from 'node:fs';
import { beforeEach } from 'vitest';
import { reasonOf } from '../../../src/errors.ts';
import { openObject } from '../../../src/sys/native.ts';
import { bpfObjectPath } from '../../../src/sys/package.ts';

/** Why not; undefined: it does. */
export function mapIteratorRefusal(): string | undefined {
  const object = openObject(readFileSync(bpfObjectPath('find_stale.bpf.o')), { name: 'finder' });
  try {
    object.load();
    return undefined;
  } catch (error) {
    const [reason = ''] = reasonOf(error).split('\n', 1);
    // What the verifier finds wrong with a program is EACCES, EINVAL or E2BIG.
    return reason.includes('(EPERM)')
      ? `the kernel refuses iterators over maps: ${reason}`
      : undefined;
  } finally {
    object.close();
  }
}

/** Skips the tests of the suite, with the reason. */
export function skipWithoutMapIterators(refusal: string | undefined): void {
  beforeEach((context) => {
    if (refusal !== undefined) context.skip(refusal);
  });
}
