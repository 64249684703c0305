// SPDX-License-Identifier: Apache-2.0
// What XDP forwards under load: that it does, and that no connection fails when the agent is replaced, when XDP is taken off,
// and when the driver begins to lose frames.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { TIMEOUT_MS, until } from '../../../support/until.ts';
import { FAR_PORT, makeXdpCluster, NODE, XDP, type XdpCluster } from './support/cluster.ts';

let cluster: XdpCluster;
let agent: Agent | undefined;

beforeAll(async () => {
  cluster = await makeXdpCluster();
});
afterEach(async () => {
  await agent?.stop();
  agent = undefined;
});
afterAll(() => cluster?.remove());

const sent = async (): Promise<number> => (await cluster.device())?.xdp?.sent ?? 0;
const target = (family: keyof typeof NODE, protocol: 'TCP' | 'UDP') =>
  ({ address: NODE[family], port: FAR_PORT, protocol }) as const;

test.each([
  ['IPv4', 'TCP'],
  ['IPv4', 'UDP'],
  ['IPv6', 'TCP'],
  ['IPv6', 'UDP'],
] as const)('%s %s: requests and replies leave by XDP', async (family, protocol) => {
  agent = await cluster.start();
  await cluster.untilXdp('on');
  const before = await sent();
  const tally = await cluster.outside.burst(target(family, protocol), { connections: 100 });
  expect(tally.failures).toEqual({});
  // A request and its reply for each at least; one packet in some seconds goes by the stack.
  await until(async () => (await sent()) - before > 190, 'XDP to have sent as many frames');
  expect((await cluster.device())?.xdp).toMatchObject({ state: 'on', lost: 0 });
});

test('no connection fails while agents are replaced, with XDP and without', async () => {
  agent = await cluster.start();
  await cluster.untilXdp('on');
  const load = await cluster.outside.startLoad(target('IPv4', 'TCP'));
  for (const flags of [XDP, ['--xdp', 'off'], XDP]) {
    await agent.kill();
    agent = await cluster.start(flags);
    if (flags === XDP) await cluster.untilXdp('on');
    const { connections } = await load.read();
    await until(
      async () => (await load.read()).connections > connections + 50,
      'further connections',
    );
  }
  const { connections, failures } = await load.stop();
  expect(failures).toEqual([]);
  expect(connections).toBeGreaterThan(150);
});

test('a driver that begins to lose frames: XDP is taken off, and connections go on', async () => {
  agent = await cluster.start();
  await cluster.untilXdp('on');
  const load = await cluster.outside.startLoad(target('IPv4', 'TCP'), { timeoutMs: TIMEOUT_MS });
  await until(async () => (await load.read()).connections > 20, 'connections');
  await cluster.ethtool(cluster.wire, 'n1', 'gro', 'off');
  const { reason, lost } = await cluster.untilXdp('refused');
  expect(reason).toMatch(/^its driver lost \d+ of \d+ frames of XDP within 10 s$/);
  expect(lost).toBeGreaterThan(15);
  const { connections } = await load.read();
  await until(
    async () => (await load.read()).connections > connections + 50,
    'further connections',
  );
  expect((await load.stop()).failures).toEqual([]);
  await cluster.ethtool(cluster.wire, 'n1', 'gro', 'on');
});
