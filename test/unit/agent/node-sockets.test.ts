// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { followNodeSockets, LOOK_MS } from '../../../src/agent/node-sockets/follow.ts';
import type { NodeSockets } from '../../../src/plan/node-sockets/frontends.ts';
import type { Listener } from '../../../src/sys/netlink/listeners.ts';
import { buildAll } from '../../support/plan/build-all.ts';
import { SETTINGS, service } from '../plan/support.ts';
import { FakeClock } from '../source/apiserver/support/fake-clock.ts';

const DNS: Listener = { protocol: 'UDP', address: '10.96.0.10', port: 53 };
const PUTS = [service('dns', 10, { ports: [{ name: 'dns', port: 53, protocol: 'UDP' }] })];

/** A node whose plan follows what the follower tells. */
function nodeWith(addresses: string[]) {
  const clock = new FakeClock();
  const logged: string[] = [];
  const told: NodeSockets[] = [];
  const node = { listeners: [] as Listener[], reads: 0, error: '' };
  let changed = (): void => undefined;
  const follower = followNodeSockets({
    addresses: {
      current: () => addresses.map((address) => ({ family: 'IPv4' as const, address })),
      listen: (listener) => {
        changed = listener;
      },
    },
    read: () => {
      node.reads++;
      if (node.error !== '') throw new Error(node.error);
      return node.listeners;
    },
    tell: (sockets) => told.push(sockets),
    clock,
    log: {
      info: (_: object, text: string) => logged.push(text),
      warn: (_: object, text: string) => logged.push(`warning: ${text}`),
    } as never,
  });
  const plan = () => follower.planned(buildAll(PUTS, SETTINGS, undefined, told.at(-1)));
  const listeners = () => [...(told.at(-1)?.listeners ?? [])];
  return { clock, logged, told, node, follower, plan, listeners, changed: () => changed() };
}

test('without a frontend at an address of the node it looks once, and never again', () => {
  const { clock, node, plan } = nodeWith(['192.0.2.11']);
  plan();
  clock.advance(10 * LOOK_MS);
  expect(node.reads).toBe(1);
});

test('it tells who listens before the first plan, and follows while there is such a frontend', () => {
  const { clock, node, plan, listeners, logged, follower } = nodeWith(['10.96.0.10']);
  plan();
  expect(listeners()).toEqual([]);
  node.listeners = [DNS, { ...DNS, port: 54 }];
  clock.advance(LOOK_MS);
  expect(listeners()).toEqual(['10.96.0.10:53/UDP']);
  node.listeners = [];
  clock.advance(LOOK_MS);
  expect(listeners()).toEqual([]);
  expect(logged).toHaveLength(2);
  follower.close();
  const { reads } = node;
  clock.advance(10 * LOOK_MS);
  expect(node.reads).toBe(reads);
});

test('an address that comes is told at once', () => {
  const addresses = ['192.0.2.11'];
  const { plan, told, changed } = nodeWith(addresses);
  plan();
  addresses.push('10.96.0.10');
  changed();
  expect([...(told.at(-1)?.addresses ?? [])]).toEqual(['192.0.2.11', '10.96.0.10']);
});

test('a kernel that does not list sockets is a problem where it matters, and what was known stays', () => {
  const { clock, node, plan, listeners, follower, logged } = nodeWith(['10.96.0.10']);
  expect(follower.problems()).toEqual([]);
  node.listeners = [DNS];
  plan();
  expect(listeners()).toEqual(['10.96.0.10:53/UDP']);
  node.error = 'sockets of UDP cannot be listed: ENOENT';
  clock.advance(3 * LOOK_MS);
  expect(listeners()).toEqual(['10.96.0.10:53/UDP']);
  expect(follower.problems()).toMatchObject([{ isWarning: true }]);
  expect(follower.problems()[0]?.reason).toContain('sockets of UDP cannot be listed: ENOENT');
  expect(logged.filter((text) => text.startsWith('warning'))).toHaveLength(1);
  node.error = '';
  clock.advance(LOOK_MS);
  expect(follower.problems()).toEqual([]);
});
