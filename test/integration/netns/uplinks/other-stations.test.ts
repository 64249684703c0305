// SPDX-License-Identifier: Apache-2.0
// An uplink that listens to all, as behind a switch that floods: frames for other stations come in by it. The stack drops them, so
// nothing may answer them. A device above it with a MAC address of its own gets its frames.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';
import { insideNamespace, ipBatch } from '../../../../src/sys/netns.ts';
import { type Agent, runCommand } from '../../../../tools/lab/agent.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import { service } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';

const UPLINK = '192.168.77.1';
const ABOVE = { address: '192.168.77.99', mac: '02:fe:00:00:00:99' } as const;
const STRANGER = '02:fe:00:00:00:01';
const SERVED = 30080;
const EMPTY = 30081;
const SILENT_MS = 1_500;

let all: TestNodes;
let node: TestNode;
let far: string;
let outside: Client;
let agent: Agent;

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: ['web'], clients: [] },
    { name: 'n2', servers: [], clients: [] },
  ]);
  const [first, second] = all.nodes;
  node = first!;
  far = second!.self.namespace;
  await ipBatch(
    [
      'link set uplink promisc on',
      `link add above link uplink address ${ABOVE.mac} type macvlan mode private`,
      `addr add ${ABOVE.address}/32 dev above`,
      'link set above up',
    ],
    node.self.namespace,
  );
  outside = await startClient(second!.self);
  const [web] = node.pods('web');
  node.manifests.put('web.yaml', service('web', { n: 10, nodePort: SERVED }, [web!]));
  node.manifests.put('empty.yaml', service('empty', { n: 11, nodePort: EMPTY }, []));
  agent = await node.startAgent();
});
afterAll(async () => {
  await agent?.stop();
  all?.remove();
});

/** The MAC address to which the client's node sends what is for this address. */
const sendTo = (mac: string, address: string = UPLINK): Promise<void> =>
  ipBatch([`neigh replace ${address} lladdr ${mac} dev uplink nud permanent`], far);
async function shown(program: string, ...args: readonly string[]): Promise<string> {
  const [first = '', ...rest] = insideNamespace(node.self.namespace, [program, ...args]);
  return (await run(first, rest)).stdout;
}
const uplinkMac = async (): Promise<string> =>
  /link\/ether (\S+)/.exec(await shown('ip', 'link', 'show', 'uplink'))?.[1] ?? '';
const receivedCount = async (): Promise<number> => {
  const [link] = JSON.parse(await shown('ip', '-s', '-j', 'link', 'show', 'uplink')) as [
    { stats64: { rx: { packets: number } } },
  ];
  return link.stats64.rx.packets;
};
const answer = async (port: number, address: string = UPLINK): Promise<string> => {
  const one = await outside.once({ address, port, protocol: 'TCP' }, SILENT_MS);
  return one.kind === 'failed' ? one.code : one.backend;
};
const flows = async (): Promise<string> => {
  const args = ['connections', '-o', 'name', '--bpf-root', node.instance.bpfRoot];
  return (await runCommand(node.instance, args)).stdout;
};

test('frames for another station make no flow, and are not refused', async () => {
  await sendTo(STRANGER);
  const before = await receivedCount();
  expect([await answer(SERVED), await answer(EMPTY)]).toEqual(['TIMEOUT', 'TIMEOUT']);
  expect(await receivedCount()).toBeGreaterThanOrEqual(before + 2);
  expect(await flows()).not.toContain('192.168.77.2');
});

test('those for the node are served and refused', async () => {
  await sendTo(await uplinkMac());
  await untilHolds(async () => expect(await answer(SERVED)).toBe('web'));
  await untilHolds(async () => expect(await answer(EMPTY)).toBe('ECONNREFUSED'));
});

test('so are those for a device above the uplink, by its programs', async () => {
  await sendTo(ABOVE.mac, ABOVE.address);
  await untilHolds(async () => expect(await answer(SERVED, ABOVE.address)).toBe('web'));
  expect(await answer(EMPTY, ABOVE.address)).toBe('ECONNREFUSED');
});

test('and by those of the uplink, where the device above has none', async () => {
  await agent.stop();
  agent = await node.startAgent(['--devices', 'uplink,v?']);
  await untilHolds(async () => expect(await answer(SERVED, ABOVE.address)).toBe('web'));
});
