// SPDX-License-Identifier: Apache-2.0
// The URLs of the API server, from the slices of the Service default/kubernetes among all that pass by.
import { beforeEach, expect, test } from 'vitest';
import type { ObjectChange } from '../../../../../src/model/types.ts';
import { ApiServerEndpoints } from '../../../../../src/source/apiserver/transport/remembered.ts';
import { put, remove, sliceObject } from '../../../../support/objects.ts';

const slice = (owner: string, address: string, name = `${owner}-1`, isReady = true): ObjectChange =>
  put(
    sliceObject(owner, [{ addresses: [address], conditions: { ready: isReady } }], {
      metadata: { name, labels: { 'kubernetes.io/service-name': owner } },
      ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
    }),
  );

let endpoints: ApiServerEndpoints;
beforeEach(() => {
  endpoints = new ApiServerEndpoints();
});

test('those of ready endpoints, sorted, when they change', () => {
  const first = [slice('kubernetes', '192.0.2.2', 'b'), slice('kubernetes', '192.0.2.1', 'a')];
  expect(endpoints.take(first)).toEqual(['https://192.0.2.1:6443', 'https://192.0.2.2:6443']);
  expect(endpoints.take(first)).toBeUndefined();
  const gone = slice('kubernetes', '192.0.2.2', 'b', false);
  expect(endpoints.take([gone])).toEqual(['https://192.0.2.1:6443']);
});

test('other Services change nothing, also in the namespace default', () => {
  endpoints.take([slice('kubernetes', '192.0.2.1')]);
  const web = slice('web', '10.1.1.1');
  expect(endpoints.take([web, remove(web), slice('web', '10.1.1.2')])).toBeUndefined();
  const metadata = {
    ...{ name: 'x', namespace: 'other' },
    labels: { 'kubernetes.io/service-name': 'kubernetes' },
  };
  const endpoint = { addresses: ['10.1.1.1'] };
  const elsewhere = put(sliceObject('kubernetes', [endpoint], { metadata }));
  expect(endpoints.take([elsewhere])).toBeUndefined();
});

test('a slice that comes and goes in one delivery leaves nothing', () => {
  const [old, brief] = [
    slice('kubernetes', '192.0.2.1', 'a'),
    slice('kubernetes', '192.0.2.2', 'b'),
  ];
  expect(endpoints.take([old, brief, remove(brief)])).toEqual(['https://192.0.2.1:6443']);
});

test('the last ones are kept when all are gone', () => {
  const only = slice('kubernetes', '192.0.2.1');
  endpoints.take([only]);
  expect(endpoints.take([remove(only)])).toBeUndefined();
});
