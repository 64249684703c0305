// SPDX-License-Identifier: Apache-2.0
// `fairlead run` attaches the packet layer to the node's devices, says so in status, adopts it after a restart, and
// removes it when it is asked to.
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PACKET_MAPS } from '../../../../src/engines/bpf/kernel/packet/layer.ts';
import { mapPin, parseMapPin } from '../../../../src/engines/bpf/layout/versions.ts';
import type { Answer } from '../../../../src/observe/answer.ts';
import { ipBatch } from '../../../../src/sys/netns.ts';
import { type Agent, runCommand } from '../../../../tools/lab/agent.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import { service } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { AT_ONCE_MS, until, untilHolds } from '../../../support/until.ts';

const UPLINK = '192.168.77.1';
const NODE_PORT = 30080;

let all: TestNodes;
let node: TestNode;
let outside: Client;
let agent: Agent;

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: ['web'], clients: ['client'] },
    { name: 'n2', servers: [], clients: [] },
  ]);
  const [first, second] = all.nodes;
  node = first!;
  outside = await startClient(second!.self);
  node.manifests.put('web.yaml', [
    {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n1' },
      status: { addresses: [{ type: 'InternalIP', address: UPLINK }] },
    },
    ...service('web', { n: 10, nodePort: NODE_PORT }, [node.pods('web')[0]!]),
  ]);
  agent = await node.startAgent();
});
afterAll(() => all?.remove());

const answers = async (): Promise<string> => {
  const target = { address: UPLINK, port: NODE_PORT, protocol: 'TCP' } as const;
  const answer = await outside.once(target, AT_ONCE_MS);
  return answer.kind === 'failed' ? answer.code : answer.backend;
};
/** The kernel detaches programs whose link nobody holds any more a moment later. */
const untilRefused = (): Promise<void> =>
  untilHolds(async () => expect(await answers()).toBe('ECONNREFUSED'));
const attached = async (): Promise<Record<string, string>> => {
  const { devices } = await node.status();
  return Object.fromEntries(
    devices.map(({ name, isAttached, role }) => [name, isAttached ? role : 'not attached']),
  );
};
const DEVICES = { br0: 'bridge', lo: 'not attached', uplink: 'uplink', v1: 'pod', v2: 'pod' };

test('status names every device, the reason, and the programs on it', async () => {
  expect(await attached()).toEqual(DEVICES);
  const { stdout } = await runCommand(node.instance, [
    'status',
    '-o',
    'wide',
    '--run-dir',
    node.instance.runDir,
  ]);
  const lines = stdout.split('\n').filter((line) => line.startsWith('Device'));
  expect(lines.map((line) => line.replaceAll(/ +/g, ' '))).toEqual([
    'Devices: 4 of 5 attached',
    'Device: br0 bridge bridge attached: it is up SNAT 10.1.1.1, fd00:10:1::1 ingress: fl_ingress egress: fl_egress',
    'Device: lo loopback - not attached: the loopback device has only traffic of the node itself',
    'Device: uplink veth uplink attached: it is up SNAT 192.168.77.1, fd00:77::1 ingress: fl_ingress egress: fl_egress',
    "Device: v1 veth pod attached: its peer is in another network namespace, as that of a pod SNAT with the node's address ingress: fl_ingress egress: fl_egress",
    "Device: v2 veth pod attached: its peer is in another network namespace, as that of a pod SNAT with the node's address ingress: fl_ingress egress: fl_egress",
  ]);
});

test('a client outside reaches the NodePort', async () => {
  await untilHolds(async () => expect(await answers()).toBe('web'));
});

test('explain says so, as the agent and as manifests with --devices have it', async () => {
  const { runDir, manifests, nodeName } = node.instance;
  const explained = async (...sources: readonly string[]) => {
    const [from, to] = ['192.168.77.2', `${UPLINK}:${NODE_PORT}/tcp`];
    const words = ['explain', '--from', from, '--to', to, '-o', 'json', ...sources];
    const { stdout } = await runCommand(node.instance, words);
    const { dataplane, source, limits } = JSON.parse(stdout) as Answer;
    return { dataplane, source, limits };
  };
  const served = { dataplane: 'bpf', source: 'client', limits: [] };
  expect(await explained('--run-dir', runDir)).toEqual(served);
  const folder = ['--manifests', manifests.path, '--hostname-override', nodeName];
  expect(await explained(...folder)).toEqual(served);
  expect(await explained(...folder, '--devices', 'none')).toEqual({
    ...{ dataplane: null, source: null },
    limits: ['not served by bpf: packets from outside'],
  });
});

test('a flow is listed, and deleted after its end', async () => {
  // Open until it has been seen: its end is what the clock of the flow starts with.
  const stream = await outside.open({ address: UPLINK, port: NODE_PORT, protocol: 'TCP' });
  const flows = async (): Promise<number> => {
    const args = ['connections', '-o', 'name', '--bpf-root', node.instance.bpfRoot];
    const { stdout } = await runCommand(node.instance, args);
    return stdout.split('\n').filter((line) => line.includes(`:${NODE_PORT}`)).length;
  };
  expect(await flows()).toBeGreaterThan(0);
  await stream.close();
  await until(async () => (await flows()) === 0, { what: 'no flow', timeoutMs: 90_000 });
});

test('a device that appears gets its programs', async () => {
  await ipBatch(['link add v9 type bridge', 'link set v9 up'], node.self.namespace);
  await until(async () => (await attached())['v9'] === 'bridge', 'v9 to be attached');
  await ipBatch(['link del v9'], node.self.namespace);
  await untilHolds(async () => expect(await attached()).toEqual(DEVICES));
});

test('traffic flows without the agent, and the next one adopts the programs', async () => {
  await agent.kill();
  expect(await answers()).toBe('web');
  agent = await node.startAgent();
  const line = agent.log.find((one) => one.includes('devices attached')) ?? '';
  expect(JSON.parse(line)).toMatchObject({ devices: 4, adopted: 4 });
  expect(await answers()).toBe('web');
});

test.each([
  ['goes on', false],
  ['that is older than fl_mark goes on', true],
])('a connection %s under the next agent', async (_, isOlder) => {
  const stream = await outside.open({ address: UPLINK, port: NODE_PORT, protocol: 'TCP' });
  const talk = async (): Promise<string> => (await stream.talk('again')).kind;
  expect(await talk()).toBe('answered');
  await agent.kill();
  if (isOlder) rmSync(join(node.instance.bpfRoot, 'maps', mapPin('fl_mark')));
  agent = await node.startAgent();
  expect(await talk()).toBe('answered');
  await stream.close();
});

test('--devices none removes the programs of an earlier agent, and its flows', async () => {
  const { bpfRoot } = node.instance;
  const packetMaps = (): readonly string[] =>
    readdirSync(join(bpfRoot, 'maps'))
      .map((pin) => parseMapPin(pin)?.map ?? pin)
      .filter((map) => PACKET_MAPS.includes(map));
  await agent.stop();
  expect(packetMaps()).toEqual(PACKET_MAPS.toSorted());
  agent = await node.startAgent(['--devices', 'none']);
  expect((await node.status()).devices).toEqual([]);
  await untilRefused();
  expect(packetMaps()).toEqual([]);
  const { stderr } = await runCommand(node.instance, ['connections', '--bpf-root', bpfRoot]);
  expect(stderr).toContain('the packet layer is not loaded');
});

test('cleanup removes them too, and --ephemeral when the agent stops', async () => {
  await agent.stop();
  agent = await node.startAgent(['--devices', 'uplink,v?,br0']);
  await untilHolds(async () => expect(await answers()).toBe('web'));
  await agent.stop();
  const { stdout } = await runCommand(node.instance, [
    'cleanup',
    '--bpf-root',
    node.instance.bpfRoot,
    '--run-dir',
    node.instance.runDir,
  ]);
  expect(stdout).toContain('removed link links/fl_ingress@uplink');
  await untilRefused();
  agent = await node.startAgent(['--ephemeral']);
  await untilHolds(async () => expect(await answers()).toBe('web'));
  await agent.stop();
  await untilRefused();
});
