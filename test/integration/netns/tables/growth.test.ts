// SPDX-License-Identifier: Apache-2.0
// The table of connections grows while the agent runs: connections from before go on, those that begin meanwhile are served
// without a packet that is lost, and changes take effect as soon as it has grown.
import { existsSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bucketsFor, capacityOf } from '../../../../src/engines/bpf/conn/sizes.ts';
import { mapPath } from '../../../../src/engines/bpf/kernel/loader/pins.ts';
import { ipBatch } from '../../../../src/sys/netns.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import { service } from '../../../support/builders.ts';
import { getInSandbox } from '../../../support/http/get.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { askMany, whileManyServed } from '../../../support/programs/many.ts';
import { until } from '../../../support/until.ts';

const UPLINK = '192.168.77.1';
const MANY_PORT = 30_080;
const WEB_PORT = 30_081;
const TARGET_PORT = 9090;
/** More than half of what the table is made for at first. */
const CLIENTS = 40_000;
const GROWN = capacityOf(bucketsFor(262_144));
const SOURCES = Array.from({ length: 20 }, (_, n) => `192.168.77.${100 + n}`);

let all: TestNodes;
let first: TestNode;
let second: TestNode;
let outside: Client;
let agent: Agent;

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: ['near'], clients: [] },
    { name: 'n2', servers: ['far'], clients: [] },
  ]);
  [first, second] = all.nodes as [TestNode, TestNode];
  outside = await startClient(second.self);
  await ipBatch(
    SOURCES.map((address) => `addr add ${address}/24 dev uplink`),
    second.self.namespace,
  );
  const many = { n: 10, nodePort: MANY_PORT, targetPort: TARGET_PORT };
  first.manifests.put('many.yaml', service('many', many, second.pods('far')));
  first.manifests.put('web.yaml', service('web', { n: 11, nodePort: WEB_PORT }, first.servers));
  agent = await first.startAgent(['--metrics-top-services', '5']);
});
afterAll(async () => {
  await outside?.stop();
  all?.remove();
});

const logged = (text: string): string | undefined => agent.log.find((line) => line.includes(text));

const nodePort = (port: number) => ({ address: UPLINK, port, protocol: 'TCP' }) as const;

async function heldPackets(): Promise<number> {
  const { body } = await getInSandbox(first.instance.sandbox, 10_249, '/metrics');
  const [, count] = /^fairlead_outcomes_total\{reason="DROPPED_BUSY"\} (\d+)$/m.exec(body) ?? [];
  return Number(count);
}

async function packetsOfWeb(): Promise<number | undefined> {
  const { body } = await getInSandbox(first.instance.sandbox, 10_249, '/metrics');
  const [, count] =
    /^fairlead_service_packets_total\{[^}]*service="web"[^}]*to_backend[^}]*\} (\d+)$/m.exec(
      body,
    ) ?? [];
  return count === undefined ? undefined : Number(count);
}

test('40,000 connections at once, and one from before: each goes on and gets its own answer', async () => {
  const own = await outside.open(nodePort(WEB_PORT));
  const load = await outside.startLoad(nodePort(WEB_PORT), { concurrency: 2, timeoutMs: 60_000 });
  const packets = await until(packetsOfWeb, 'packets are read');
  const served = ['tcp', TARGET_PORT, CLIENTS] as const;
  const answers = await whileManyServed(second, 'far', served, () =>
    askMany(second, 'tcp', [UPLINK, MANY_PORT], CLIENTS, SOURCES),
  );
  const grown = await until(() => logged('has grown'), 'the table has grown');
  expect(await packetsOfWeb()).toBeGreaterThanOrEqual(packets);
  expect(await own.talk('still there')).toMatchObject({ kind: 'answered', backend: 'near' });
  expect((await load.stop()).failures).toEqual([]);
  expect(answers).toBe(`${CLIENTS} 0 0 0`);
  expect(await heldPackets()).toBe(0);
  expect(JSON.parse(grown)).toMatchObject({
    connections: { IPv4: 262_144, IPv6: 65_536 },
    before: { IPv4: 65_536, IPv6: 65_536 },
  });
  // Said once for a process: that the table has grown says the rest.
  expect(agent.log.filter((line) => line.includes('devices attached'))).toHaveLength(1);
  await own.close();
});

test('it has its new size in every view, and follows changes as before', async () => {
  const { tables } = await first.status();
  expect(tables).toContainEqual(expect.objectContaining({ name: 'fl_conn4', capacity: GROWN }));
  first.manifests.put('late.yaml', service('late', { n: 12, nodePort: 30_082 }, first.servers));
  await first.programmed();
  expect(await outside.once(nodePort(30_082))).toMatchObject({ kind: 'answered' });
});

test('the next agent keeps the size', async () => {
  await agent.stop();
  agent = await first.startAgent();
  const { tables } = await first.status();
  expect(tables).toContainEqual(expect.objectContaining({ name: 'fl_conn4', capacity: GROWN }));
});

test('an agent without programs on devices removes it, and carries nothing over', async () => {
  await agent.stop();
  agent = await first.startAgent(['--devices', 'none']);
  expect(logged('carried over')).toBeUndefined();
  expect(existsSync(mapPath(first.instance.bpfRoot, 'fl_client4'))).toBe(false);
});
