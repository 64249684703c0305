// SPDX-License-Identifier: Apache-2.0
// Frames with a VLAN tag, by the device below: they are the VLAN's, and its device has programs. Here it is in another network namespace, or
// nowhere. The real one is in test/integration/kernels/devices.test.ts.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';
import { insideNamespace } from '../../../../src/sys/netns.ts';
import { packageRoot } from '../../../../src/sys/package.ts';
import { runCommand } from '../../../../tools/lab/agent.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import { service } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

const TARGET = { address: '192.168.77.1', port: 30080, protocol: 'TCP' } as const;
const SILENT_MS = 1_000;

let all: TestNodes;
let node: TestNode;
let far: string;
let outside: Client;

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: ['web'], clients: [] },
    { name: 'n2', servers: [], clients: [] },
  ]);
  const [first, second] = all.nodes;
  node = first!;
  far = second!.self.namespace;
  outside = await startClient(second!.self);
  const [web] = node.pods('web');
  node.manifests.put('web.yaml', service('web', { n: 10, nodePort: TARGET.port }, [web!]));
  await node.startAgent();
  await untilHolds(async () => expect(await answer()).toBe('web'));
});
afterEach(() => onFar('tc', 'qdisc', 'del', 'dev', 'uplink', 'clsact'));
afterAll(() => all?.remove());

async function onFar(...argv: readonly string[]): Promise<void> {
  const [program = '', ...rest] = insideNamespace(far, argv);
  await run(program, rest);
}
/** All that the client's node sends. */
const tag = (program: string): Promise<void> =>
  onFar(
    process.execPath,
    '-e',
    `const native = require('${packageRoot()}/build/native/fairlead.node');
     const object = native.openObject(require('node:fs').readFileSync('${packageRoot()}/build/bpf-test/tag.bpf.o'));
     object.load();
     const { ifindex } = JSON.parse(require('node:child_process').execSync('ip -j link show uplink'))[0];
     object.program('${program}').attachTc(ifindex, 'egress', { forceClsact: true }).close();`,
  );
const answer = async (): Promise<string> => {
  const one = await outside.once(TARGET, SILENT_MS);
  return one.kind === 'failed' ? one.code : one.backend;
};
const flowCount = async (): Promise<number> => {
  const args = ['connections', '-o', 'name', '--bpf-root', node.instance.bpfRoot];
  return (await runCommand(node.instance, args)).stdout.split('\n').length;
};

test('of a VLAN: they make no flow by the device below', async () => {
  const before = await flowCount();
  await tag('vlan_7');
  expect(await answer()).toBe('TIMEOUT');
  expect(await flowCount()).toBe(before);
});

test('of no VLAN, with a priority: they are the device’s own', async () => {
  await tag('priority_6');
  expect(await answer()).toBe('web');
});
