// SPDX-License-Identifier: Apache-2.0
// What `explain` and `services` tell of a Service that asks for what it does not get.
import { expect, test } from 'vitest';
import type { ObjectChange } from '../../../src/model/types.ts';
import { serviceRows } from '../../../src/observe/service-rows.ts';
import { explain } from '../../../src/plan/explain/explain.ts';
import { parsePacket } from '../../../src/plan/explain/packet.ts';
import { createPlanner } from '../../support/plan/planner.ts';
import { ready, SETTINGS, service, slice } from './support.ts';

function toldOf(to: string, ...changes: readonly ObjectChange[]) {
  const { plan } = createPlanner(SETTINGS).apply([...changes]);
  const parsed = parsePacket(to.startsWith('[') ? '2001:db8::9' : '10.1.1.9', to, undefined);
  if (!parsed.ok) throw new Error(parsed.reason);
  return {
    explained: explain(plan, parsed.packet).steps.at(-1)?.reason,
    rows: serviceRows(plan, [], []).flatMap(({ notes = [] }) => notes),
  };
}

const http = (more: object = {}) =>
  service('web', 1, { ports: [{ name: 'http', port: 80 }], ...more });
const ports = [{ name: 'web', port: 8080 }];

test.each([
  [
    'another port name',
    [http(), slice('web', [ready('10.1.1.5')], { ports })],
    /has port "http" \(TCP\), its EndpointSlices have port "web" \(TCP\)/,
  ],
  [
    'another address type',
    [http(), slice('web', [ready('2001:db8::5')], { addressType: 'IPv6' })],
    /addressType IPv6, this frontend is of IPv4/,
  ],
  [
    'host names alone',
    [http(), slice('web', [{ addresses: ['example.com'] }], { addressType: 'FQDN', ports })],
    /addressType FQDN, this frontend is of IPv4: no proxy serves host names, write addresses$/,
  ],
  ['no selector and no slices', [http()], /^the Service has no selector/],
  [
    'a selector and no slices',
    [http({ selector: { app: 'web' } })],
    /^no EndpointSlice has the label/,
  ],
])('%s', (_, changes, text) => {
  const { explained, rows } = toldOf('10.96.0.1:80/tcp', ...changes);
  expect(explained).toMatch(text);
  expect(rows).toEqual([explained]);
});

test('an endpoint that is not ready is no reason of these', () => {
  const waiting = { addresses: ['10.1.1.5'], conditions: { ready: false } };
  const { explained, rows } = toldOf(
    '10.96.0.1:80/tcp',
    http(),
    slice('web', [waiting], { ports: [{ name: 'http', port: 8080 }] }),
  );
  expect(explained).toBe('no endpoint is ready, and none serves while it terminates');
  expect(rows).toEqual([]);
});

test('an external IP of a family without a ClusterIP', () => {
  const good = slice('web', [ready('10.1.1.5')], { ports: [{ name: 'http', port: 8080 }] });
  const { explained, rows } = toldOf(
    '[2001:db8::1]:80/tcp',
    http({ externalIPs: ['2001:db8::1'] }),
    good,
  );
  expect(explained).toMatch(
    /^Service default\/web: spec.externalIPs\[0\]: 2001:db8::1 is not served: the Service has no ClusterIP of IPv6/,
  );
  expect(rows).toEqual([explained?.replace('Service default/web: ', '')]);
});
