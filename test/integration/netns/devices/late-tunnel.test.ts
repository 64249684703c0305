// SPDX-License-Identifier: Apache-2.0
// The programs for devices whose packets begin with the IP header take the kernel as long as all others: they are loaded when
// the first such device appears, and at the start if there is one.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ipBatch } from '../../../../src/sys/netns.ts';
import { packageRoot } from '../../../../src/sys/package.ts';
import type { Agent } from '../../../../tools/lab/agent.ts';
import { startLines } from '../../../../tools/lab/lines.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import { service } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { compiled } from '../../../support/programs/compiled.ts';
import { AT_ONCE_MS, until, untilHolds } from '../../../support/until.ts';

const TUNNEL = join(packageRoot(), 'test/support/fixture/programs/tunnel.c');
/** Enumerator BPF_PROG_TYPE_SCHED_CLS, as the kernel prints it. */
const TC_PROGRAM = /^prog_type:\t3$/m;

let all: TestNodes;
let node: TestNode;
let other: TestNode;
let outside: Client;
let agent: Agent;

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: ['web'], clients: [] },
    { name: 'n2', servers: [], clients: [] },
  ]);
  const [first, second] = all.nodes;
  [node, other] = [first!, second!];
  outside = await startClient(other.self);
  const [web] = node.pods('web');
  node.manifests.put('web.yaml', service('web', { n: 10, nodePort: 30080 }, [web!]));
  agent = await node.startAgent();
});
afterAll(() => all?.remove());

/** The agent itself runs it, and no device. */
const SWEEP = 1;

/** Programs of tc that the agent holds. */
function tcPrograms(): number {
  const folder = `/proc/${agent.child.pid}/fdinfo`;
  return readdirSync(folder).filter((fd) => {
    try {
      return TC_PROGRAM.test(readFileSync(join(folder, fd), 'utf8'));
    } catch {
      return false; // It was closed meanwhile.
    }
  }).length;
}

/** As flannel's udp backend: packets for a range go to the node that has it. */
async function openTunnel(self: TestNode): Promise<void> {
  const [own, peer] = self === node ? [1, 2] : [2, 1];
  const route = `10.99.${peer}.0/24=192.168.77.${peer}`;
  await startLines(self.self, [compiled(TUNNEL), `192.168.77.${own}`, route]);
  const lines = [`addr add 10.99.${own}.1/16 dev tun0`, 'link set tun0 up'];
  await ipBatch(lines, self.self.namespace);
}

const answer = async (): Promise<string> => {
  const target = { address: '10.99.1.1', port: 30_080, protocol: 'TCP' } as const;
  const got = await outside.once(target, AT_ONCE_MS);
  return got.kind === 'failed' ? got.code : got.backend;
};
const isServed = async (): Promise<boolean> =>
  (await node.status()).devices.some(({ name, isAttached }) => name === 'tun0' && isAttached);

test('none are loaded without such a device', async () => {
  expect((await node.status()).devices.map(({ name }) => name)).not.toContain('tun0');
  await untilHolds(() => expect(tcPrograms()).toBe(2 + SWEEP));
});

test('a tunnel that appears later is served', async () => {
  await openTunnel(other);
  await openTunnel(node);
  await until(isServed, 'tun0 to be attached');
  const { devices } = await node.status();
  expect(devices.find(({ name }) => name === 'tun0')).toMatchObject({
    ...{ role: 'tunnel', isFailed: false },
    ...{ ingress: ['fl_ingress_l3'], egress: ['fl_egress_l3'] },
  });
  await untilHolds(() => expect(tcPrograms()).toBe(4 + SWEEP));
  await untilHolds(async () => expect(await answer()).toBe('web'));
});

test('the next agent adopts it: they are loaded with the others', async () => {
  await agent.kill();
  expect(await answer()).toBe('web');
  agent = await node.startAgent();
  const line = agent.log.find((one) => one.includes('devices attached')) ?? '';
  expect(JSON.parse(line)).toMatchObject({ devices: 4, adopted: 4 });
  await untilHolds(() => expect(tcPrograms()).toBe(4 + SWEEP));
  expect(await answer()).toBe('web');
});
