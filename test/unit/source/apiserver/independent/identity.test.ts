// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import {
  identityIn,
  identityOf,
} from '../../../../../src/source/apiserver/independent/identity.ts';

const head = (metadata: object): Uint8Array =>
  Buffer.from(JSON.stringify({ metadata, addressType: 'IPv4' }));

test('uid and version are found as an API server writes them, and nowhere else', () => {
  const names = { name: 'web-x7', generateName: 'web-', namespace: 'default' };
  const versions = { uid: 'a-1', resourceVersion: '17' };
  expect(identityIn(head({ ...names, ...versions }))).toBe(identityOf('a-1', '17'));
  expect(identityIn(head({ name: 'n1', ...versions }))).toBe(identityOf('a-1', '17'));
  expect(identityIn(head({ ...names, labels: versions }))).toBeUndefined();
  expect(identityIn(head({ ...versions, ...names }))).toBeUndefined();
});
