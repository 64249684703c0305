// SPDX-License-Identifier: Apache-2.0
// Which NodePorts are also the port of an endpoint: a process of the node may bind those.
import { expect, test } from 'vitest';
import { createPlanner } from '../../../support/plan/planner.ts';
import { ready, SETTINGS, service, slice } from '../support.ts';

const main = { name: 'main', protocol: 'TCP', port: 80, nodePort: 30_080 };
const notReady = { ...ready('192.0.2.1'), conditions: { ready: false } };

/** Kinds and numbers of the frontends that are marked. */
function marked(endpoint: object, slicePort: object): readonly string[] {
  const ports = [{ name: 'main', protocol: 'TCP', port: 8080, ...slicePort }];
  const { plan } = createPlanner(SETTINGS).apply([
    service('web', 10, { type: 'NodePort', ports: [main] }),
    slice('web', [endpoint], { ports }),
  ]);
  const frontends = plan.services.get('default/web')?.ports.flatMap((port) => port.frontends) ?? [];
  expect(frontends.map(({ kind }) => kind)).toEqual(['ClusterIP', 'NodePort']);
  return frontends
    .filter(({ isEndpointPort }) => isEndpointPort)
    .map(({ kind, port }) => `${kind} ${port}`);
}

test.each([
  ['the same number', ready('192.0.2.1'), { port: 30_080 }, ['NodePort 30080']],
  ['the same number, not ready yet', notReady, { port: 30_080 }, ['NodePort 30080']],
  ['another number', ready('192.0.2.1'), {}, []],
  ['another port of the Service', ready('192.0.2.1'), { port: 30_080, name: 'other' }, []],
  ['another protocol', ready('192.0.2.1'), { port: 30_080, protocol: 'UDP' }, []],
] as const)('an endpoint of %s', (_name, endpoint, slicePort, expected) => {
  expect(marked(endpoint, slicePort)).toEqual(expected);
});
