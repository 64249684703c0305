// SPDX-License-Identifier: Apache-2.0
// Law: a state with the difference to another one applied is the other one.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ServiceState } from '../../../src/history/records.ts';
import { applied, diffOf, stateOf } from '../../../src/history/state.ts';
import {
  clusterIp,
  put,
  readyEndpoint,
  serviceObject,
  sliceObject,
} from '../../support/objects.ts';
import { createPlanner } from '../../support/plan/planner.ts';
import { SETTINGS } from '../plan/support.ts';

const list = fc
  .uniqueArray(fc.integer({ min: 1, max: 9 }), { maxLength: 5 })
  .map((numbers) => numbers.map((n) => `10.0.0.${n}:80`).sort());

const state: fc.Arbitrary<ServiceState> = fc.dictionary(
  fc.constantFrom('http/TCP/IPv4', 'dns/UDP/IPv6'),
  fc
    .record({ f: list, c: list, l: list, o: fc.constantFrom('', 'algorithm=maglev') })
    .map(({ f, c, l, o }) => ({ f, c, ...(l.length > 0 && { l }), ...(o !== '' && { o }) })),
);

test('a difference leads from one state to the other', () => {
  fc.assert(
    fc.property(
      fc.option(state, { nil: undefined }),
      fc.option(state, { nil: undefined }),
      (a, b) => {
        expect(applied(a, diffOf(a, b))).toEqual(b);
      },
    ),
  );
});

test('equal states have no difference', () => {
  fc.assert(
    fc.property(state, (a) => {
      expect(diffOf(a, a)).toEqual({});
    }),
  );
});

test('the state of a plan names frontends, backends, and how one is chosen', () => {
  const spec = { ...clusterIp('10.96.0.10'), sessionAffinity: 'ClientIP' };
  const { plan } = createPlanner(SETTINGS).apply([
    put(serviceObject('web', spec)),
    put(sliceObject('web', [readyEndpoint('10.1.0.6'), readyEndpoint('10.1.0.5')])),
  ]);
  expect(stateOf(plan.services.get('default/web')!)).toEqual({
    'http/TCP/IPv4': {
      f: ['ClusterIP 10.96.0.10:80'],
      c: ['10.1.0.5:8080', '10.1.0.6:8080'],
      o: 'affinity=10800s',
    },
  });
});
