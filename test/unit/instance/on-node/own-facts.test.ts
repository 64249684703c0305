// SPDX-License-Identifier: Apache-2.0
// What an agent itself does on the node, as findings see it.
import { expect, test } from 'vitest';
import { ownFacts } from '../../../../src/instance/on-node/own-facts.ts';
import type { NodeSockets } from '../../../../src/plan/node-sockets/frontends.ts';
import { buildAll } from '../../../support/plan/build-all.ts';
import { ready, SETTINGS, service, slice } from '../../plan/support.ts';

const DNS = { name: 'dns', port: 53, protocol: 'UDP' };
const PUTS = [
  service('dns', 10, { ports: [DNS], externalIPs: ['203.0.113.20'] }),
  service('other', 11),
  slice('dns', [ready('10.1.1.5')], { ports: [DNS] }),
];

const factsWith = (listeners: readonly string[]) => {
  const sockets: NodeSockets = {
    addresses: new Set(['10.96.0.10', '203.0.113.20']),
    listeners: new Set(listeners),
  };
  const plan = buildAll(PUTS, SETTINGS, undefined, sockets);
  return ownFacts({ dataplanes: [], plan, scope: undefined, uplinks: [], masqueradeBit: 14 });
};

test('a ClusterIP is known also while a process of the node listens at each of its ports', () => {
  for (const listeners of [[], ['10.96.0.10:53/UDP']]) {
    const { clusterIps, listenedTo } = factsWith(listeners);
    expect([...clusterIps].sort()).toEqual([
      ['10.96.0.10', 'default/dns'],
      ['10.96.0.11', 'default/other'],
    ]);
    expect([...listenedTo]).toEqual(listeners.length === 0 ? [] : [['10.96.0.10', ['53/UDP']]]);
  }
});

test('whose sockets are served: as the dataplane says, of nobody without one that serves sockets', () => {
  const sockets = (used: 'auto' | 'host' | 'pods' | undefined) =>
    ownFacts({
      ...{ dataplanes: [], plan: undefined, uplinks: [], masqueradeBit: 14 },
      scope: used && { used },
    }).sockets;
  expect([sockets('auto'), sockets('host'), sockets('pods')]).toEqual(['auto', 'host', 'pods']);
  expect(sockets(undefined)).toBe('none');
});
