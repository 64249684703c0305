// SPDX-License-Identifier: Apache-2.0
// 12,000 clients at once of a backend on another node: each has a port of the node, and gets its own answer.
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startLines } from '../../../../src/lab/lines.ts';
import { insideSandbox } from '../../../../src/lab/sandbox.ts';
import { run } from '../../../../src/sys/exec.ts';
import { ipBatch, writeSysctls } from '../../../../src/sys/netns.ts';
import { service } from '../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../support/node.ts';
import { compiled } from '../../../support/programs/compiled.ts';
import { untilHolds } from '../../../support/until.ts';

const MANY = compiled(fileURLToPath(new URL('../../../support/programs/many.c', import.meta.url)));
const UPLINK = '192.168.77.1';
const NODE_PORT = 30_080;
const TARGET_PORT = 9090;
const CLIENTS = 12_000;
const SOURCES = Array.from({ length: 20 }, (_, n) => `192.168.77.${100 + n}`);

let all: TestNodes;
let second: TestNode;

beforeAll(async () => {
  all = await startNodes([
    { name: 'n1', servers: [], clients: [] },
    { name: 'n2', servers: ['far'], clients: [] },
  ]);
  const [first] = all.nodes;
  second = all.nodes[1]!;
  await ipBatch(
    SOURCES.map((address) => `addr add ${address}/24 dev uplink`),
    second.self.namespace,
  );
  // As Linux has it; in the lab clients have all ports.
  const ports = { 'net/ipv4/ip_local_port_range': '32768 60999' };
  await writeSysctls(first!.self.namespace, ports);
  const node = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'n1' },
    status: { addresses: [{ type: 'InternalIP', address: UPLINK }] },
  };
  for (const protocol of ['TCP', 'UDP'] as const) {
    const port = { protocol, nodePort: NODE_PORT, targetPort: TARGET_PORT };
    const n = protocol === 'TCP' ? 10 : 11;
    const objects = service(protocol.toLowerCase(), { n, ...port }, second.pods('far'));
    first!.manifests.put(`${protocol}.yaml`, [...(n === 10 ? [node] : []), ...objects]);
  }
  await first!.startAgent(['--map-size', 'half-open-flows=131072']);
});
afterAll(() => all?.remove());

async function ask(protocol: 'tcp' | 'udp', count: number): Promise<string> {
  const [far] = second.pods('far');
  const sandbox = { name: 'far', namespace: far!.namespace, cgroup: second.self.cgroup };
  const server = await startLines(sandbox, [
    ...[MANY, 'serve', protocol, far!.ipv4, `${TARGET_PORT}`, `${count}`],
  ]);
  const argv = [MANY, 'ask', protocol, UPLINK, `${NODE_PORT}`, `${count}`, ...SOURCES];
  const [program = '', ...args] = insideSandbox(second.self, argv);
  const { stdout, stderr } = await run(program, args);
  await server.stop();
  return `${stdout.trim()}${stderr}`;
}

test.each(['tcp', 'udp'] as const)('%s', async (protocol) => {
  await untilHolds(async () => expect(await ask(protocol, 1)).toBe('1 0 0 0'));
  expect(await ask(protocol, CLIENTS)).toBe(`${CLIENTS} 0 0 0`);
});
