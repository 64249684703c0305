// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { isProven, viewIn } from '../../../src/cli/commands/verify.ts';
import { type VerifyView, verifyText } from '../../../src/observe/verify-view.ts';

const VIEW: VerifyView = {
  ...{ against: 'API server', verifiedAt: '2026-11-29T00:00:00.000Z' },
  ...{ services: 3, unproven: 0, differing: [], found: 0, repaired: 0, relisted: 0 },
};
const DIFFERING = [{ service: 'default/web', what: 'is missing' }];

test('an agent that has read nothing has proven nothing', () => {
  for (const early of [undefined, {}, { ...VIEW, verifiedAt: undefined }])
    expect(viewIn(early)).toBeUndefined();
  expect(viewIn(VIEW)).toBe(VIEW);
  expect(viewIn({ ...VIEW, verifiedAt: undefined, problem: 'x' })?.problem).toBe('x');
});

test('equal is what needed no repair either', () => {
  expect(isProven(VIEW)).toBe(true);
  for (const other of [{ problem: 'x' }, { unproven: 1 }, { found: 1, repaired: 1 }])
    expect(isProven({ ...VIEW, ...other })).toBe(false);
});

test('the text says what was compared, what differs, and what was done', () => {
  expect(verifyText(VIEW)).toBe('3 Services are what the API server says');
  expect(verifyText({ ...VIEW, against: 'plan', services: 1 })).toBe(
    '1 Service is what the agent plans',
  );
  const { verifiedAt: _, ...unread } = VIEW;
  expect(verifyText(unread)).toBe('not verified yet');
  expect(verifyText({ ...VIEW, problem: '403' })).toBe('nothing is proven: 403');
  const differing = { ...VIEW, unproven: 2, differing: DIFFERING, found: 2, repaired: 1 };
  expect(verifyText({ ...differing, relisted: 1 })).toBe(
    '1 Service is what the API server says; 1 differs: default/web: is missing; found to differ: 2, repaired: 1; ' +
      'planned from objects that the API server does not have: 1, listed anew; not proven yet: 1',
  );
});
