// SPDX-License-Identifier: Apache-2.0
// The port is open as soon as somebody wants direct return, and the MTU is that of the device with the node's address.
import { expect, test } from 'vitest';
import {
  closeDirectPort,
  createDirectPort,
} from '../../../../../src/engines/bpf/direct-return/direct-port.ts';
import {
  DIRECT_MTU_OFFSET,
  DIRECT_PORT_OFFSET,
} from '../../../../../src/engines/bpf/layout/layout.ts';
import type { Plan } from '../../../../../src/plan/types.ts';
import type { Network } from '../../../../../src/sys/netlink/network.ts';
import { createMemoryTables } from '../../../../support/tables/memory.ts';

const network = (mtu: number, address = '192.0.2.11'): Network =>
  ({
    links: new Map([
      [1, { ifindex: 1, mtu: 65_536 }],
      [2, { ifindex: 2, mtu }],
    ]),
    addresses: new Map([
      [1, [{ address: '127.0.0.1' }]],
      [2, [{ address }]],
    ]),
  }) as unknown as Network;

const plan = (wants: boolean, node: Partial<Plan['node']> = { peers: new Map() }): Plan =>
  ({
    ...(wants && { wantsDirectReturn: true }),
    node: { addresses: { IPv4: '192.0.2.11', IPv6: undefined }, ...node },
  }) as unknown as Plan;

const newRuntime = () =>
  createMemoryTables({ frontends: 1, backends: 1, slotBlocks: 1, services: 1 }).runtime;

function start(first: Network, runtime = newRuntime(), isAble = true) {
  let now = first;
  let tell = (): void => undefined;
  const listen = (listener: () => void) => {
    tell = listener;
    return () => undefined;
  };
  const port = createDirectPort(runtime, { current: () => now, listen }, isAble);
  const changed = (next: Network): void => {
    now = next;
    tell();
  };
  const at = (offset: number): number => runtime.view(0).getUint16(offset, true);
  const said = () => ({ port: at(DIRECT_PORT_OFFSET), mtu: at(DIRECT_MTU_OFFSET) });
  return { port, runtime, changed, said };
}

test('nothing is taken until somebody asks, and then for ever; the MTU is always known', () => {
  const { port, said } = start(network(1500));
  port.follow(plan(false));
  expect(said()).toEqual({ port: 0, mtu: 1500 });
  port.follow(plan(true));
  port.follow(plan(false));
  expect(said()).toEqual({ port: 6081, mtu: 1500 });
});

test('it is closed until all other nodes are known: what comes from a stranger is dropped, and nobody told', () => {
  const { port, runtime, said } = start(network(1500));
  expect(port.wasOpen).toBe(false);
  port.follow(plan(true, {}));
  expect(said().port).toBe(0);
  port.follow(plan(true));
  expect(said().port).toBe(6081);
  const next = start(network(1500), runtime);
  expect(next.port.wasOpen).toBe(true);
  next.port.follow(plan(false, {}));
  expect(next.port.audit()).toEqual([]);
  expect(said().port).toBe(6081);
});

test('a node that says that it takes requests takes them, whether or not a Service of it asks', () => {
  const { port, said } = start(network(1500));
  port.follow(plan(false, { isPeer: true }));
  expect(said().port).toBe(0);
  port.follow(plan(false, { isPeer: true, peers: new Map() }));
  expect(said().port).toBe(6081);
});

test('on a kernel without direct return it stays closed, whoever asks and whatever an earlier agent has left', () => {
  const { port, runtime } = start(network(1500));
  port.follow(plan(true));
  const unable = start(network(1500), runtime, false);
  expect(unable.port.wasOpen).toBe(false);
  unable.port.follow(plan(true, { isPeer: true, peers: new Map() }));
  expect(unable.said()).toEqual({ port: 0, mtu: 1500 });
  expect(unable.port.audit()).toEqual([]);
});

test('the MTU follows the device', () => {
  const { port, changed, said } = start(network(1500));
  port.follow(plan(true));
  changed(network(9000));
  expect(said().mtu).toBe(9000);
  changed(network(9000, '192.0.2.99'));
  expect(said().mtu).toBe(0);
  changed(network(100_000));
  expect(said().mtu).toBe(65_535);
});

test('an audit tells and repairs a port that somebody else has changed', () => {
  const { port, runtime, said } = start(network(1500));
  const change = (to: number): void =>
    runtime.view(0).setUint16(runtime.offset(0) + DIRECT_PORT_OFFSET, to, true);
  port.follow(plan(false));
  change(6081);
  expect(port.audit()).toMatchObject([{ text: 'port for direct return differs' }]);
  expect(said().port).toBe(0);
  port.follow(plan(true));
  expect(port.audit()).toEqual([]);
  change(0);
  expect(port.audit()).toHaveLength(1);
  expect(said().port).toBe(6081);
});

test('without packet programs the port is closed', () => {
  const { port, runtime, said } = start(network(1500));
  port.follow(plan(true));
  closeDirectPort(runtime);
  expect(said().port).toBe(0);
});

test('an MTU that somebody else has written is found by an audit', () => {
  const { port, runtime, said } = start(network(1500));
  port.follow(plan(true));
  runtime.view(0).setUint16(DIRECT_MTU_OFFSET, 9, true);
  expect(port.audit().map(({ text }) => text)).toEqual(['MTU between nodes differs']);
  expect(said()).toEqual({ port: 6081, mtu: 1500 });
  expect(port.audit()).toEqual([]);
});
