// SPDX-License-Identifier: Apache-2.0
// A known reason holds for what it says, and for no defect that looks like it.
import { expect, test } from 'vitest';
import { KNOWN, type Seen } from '../../../src/compare/known.ts';

const seen = (because: string): Seen =>
  ({
    plan: { verdict: 'reject', backends: [], because: [{ text: because, isForeign: false }] },
    rules: { verdict: 'none', backends: [], because: [] },
  }) as unknown as Seen;

test('a Service without endpoints that rules do not refuse is no unknown port', () => {
  const one = KNOWN.find(({ name }) => name === 'unknown-port-passes');
  expect(one?.holds(seen('Service default/web has not this port'))).toBe(true);
  expect(one?.holds(seen('Service default/web: ClusterIP, client pod'))).toBe(false);
});
