// SPDX-License-Identifier: Apache-2.0
// An existing map is reused only if its fields are those of the object: equal sizes are not enough.
import { unlinkSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openObject } from '../../../src/sys/native.ts';
import { caught } from './support/errors.ts';
import { build, missing } from './support/fixture.ts';
import { makeBpffs, type TestResource } from './support/resources.ts';

const OURS = {
  NUMBERS: '__u32 first; __u32 second;',
  ADDRESS: '__u8 address[4];',
  STATES: 'STATE_NEW = 1, STATE_GONE = 2',
};

interface Row {
  readonly is: string;
  readonly pinned?: Partial<typeof OURS>;
  readonly says?: RegExp;
}

const ROWS: readonly Row[] = [
  { is: 'the same' },
  {
    is: 'of swapped fields',
    pinned: { NUMBERS: '__u32 second; __u32 first;' },
    says: /map record_of: value at byte 0 is field second, not field first$/,
  },
  {
    is: 'of a field in two',
    pinned: { NUMBERS: '__u32 first; __u16 second; __u16 third;' },
    says: /value.second is 2 bytes, not 4 bytes$/,
  },
  {
    is: 'of another sign',
    pinned: { NUMBERS: '__u32 first; __s32 second;' },
    says: /value.second is signed, not unsigned$/,
  },
  {
    is: 'of a shorter array',
    pinned: { ADDRESS: '__u8 address[2]; __u8 rest[2];' },
    says: /value.inner.address is 2 elements, not 4$/,
  },
  {
    is: 'of a renumbered enum',
    pinned: { STATES: 'STATE_NEW = 1, STATE_GONE = 3' },
    says: /value.state: STATE_GONE is 3, not 2$/,
  },
  { is: 'of a longer enum', pinned: { STATES: `${OURS.STATES}, STATE_ADDED = 9` } },
];

const objectOf = ({ is, pinned }: Row): Uint8Array =>
  build('layouts', { name: ` ${is}`, macros: { ...OURS, ...pinned } });

describe.skipIf(missing !== undefined)('the layout of a pinned map', () => {
  let bpffs: TestResource;
  beforeAll(() => {
    bpffs = makeBpffs();
  });
  afterAll(() => bpffs.release());

  test.each(ROWS)('$is', ({ says, ...row }) => {
    const path = `${bpffs.path}/record_of`;
    const first = openObject(objectOf(row));
    first.load();
    const map = first.map('record_of');
    map.pin(path);
    const second = openObject(objectOf({ is: 'the same' }));
    if (says === undefined) {
      expect(second.reusePin('record_of', path)).toBe(true);
      second.load();
    } else {
      const error = caught(() => second.reusePin('record_of', path));
      expect(error.code).toBe('INCOMPATIBLE');
      expect(error.message).toMatch(says);
    }
    for (const handle of [map, first, second]) handle.close();
    unlinkSync(path);
  });
});
