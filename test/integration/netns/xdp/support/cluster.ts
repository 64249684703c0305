// SPDX-License-Identifier: Apache-2.0
// Two nodes on one wire, a client on the second one, and an agent with XDP on the first. What a network card does, the ends of
// its veth pairs are told: the wire takes frames of XDP (gro), and senders fill in checksums (tx).
import { fileURLToPath } from 'node:url';
import type { DeviceView, EarlyView } from '../../../../../src/engines/snapshot.ts';
import { start as startProcess } from '../../../../../src/sys/exec.ts';
import { insideNamespace } from '../../../../../src/sys/netns.ts';
import type { Agent } from '../../../../../tools/lab/agent.ts';
import { type Client, startClient } from '../../../../../tools/lab/traffic.ts';
import { service } from '../../../../support/builders.ts';
import { startNodes, type TestNode, type TestNodes } from '../../../../support/node.ts';
import { AT_ONCE_MS, until } from '../../../../support/until.ts';
import { asCards, ethtool, execIn } from './cards.ts';

const built = (path: string): string =>
  fileURLToPath(new URL(`../../../../../build/${path}`, import.meta.url));
const ADDON = built('native/fairlead.node');
const WATCH = built('bpf/xdp_watch.bpf.o');
export const NODE = { IPv4: '192.168.77.1', IPv6: 'fd00:77::1' } as const;
export const PROTOCOLS = ['TCP', 'UDP'] as const;
export const FAR_PORT = 30080;
export const NEAR_PORT = 30081;
export const XDP: readonly string[] = ['--xdp', 'uplink=native'];

export interface XdpCluster {
  readonly all: TestNodes;
  readonly node: TestNode;
  /** Of the second node. */
  readonly outside: Client;
  start(flags?: readonly string[]): Promise<Agent>;
  device(name?: string): Promise<DeviceView | undefined>;
  /** Waits until XDP of a device is in this state. */
  untilXdp(state: EarlyView['state'], name?: string): Promise<EarlyView>;
  run(namespace: string, ...argv: readonly string[]): Promise<string>;
  /** Namespace of what is between the nodes. */
  readonly wire: string;
  readonly ethtool: typeof ethtool;
  /** Answers from outside, by both families and protocols. */
  answers(port: number): Promise<readonly string[]>;
  /**
   * Runs the body of an async function in the first node's namespace: its parameters are `native`, the XDP programs of the
   * agent that try devices, and the ifindex of the uplink. The process stays until it is told to end.
   */
  evaluate(body: string): Promise<{ end(): Promise<void> }>;
  remove(): Promise<void>;
}

export async function makeXdpCluster(): Promise<XdpCluster> {
  const all = await startNodes([
    { name: 'n1', servers: ['near'], clients: ['client'] },
    { name: 'n2', servers: ['far'], clients: [] },
  ]);
  const [node, second] = all.nodes as [TestNode, TestNode];
  const wire = `${all.topology.prefix}-wire`;
  await asCards(wire, ['n1'], [node, second]);
  node.manifests.put('web.yaml', [
    {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n1' },
      status: {
        addresses: Object.values(NODE).map((address) => ({ type: 'InternalIP', address })),
      },
    },
    ...PROTOCOLS.flatMap((protocol, index) => [
      ...service(
        `far${index}`,
        { n: 10 + index, nodePort: FAR_PORT, protocol },
        second.pods('far'),
      ),
      ...service(
        `near${index}`,
        { n: 20 + index, nodePort: NEAR_PORT, protocol },
        node.pods('near'),
      ),
    ]),
  ]);
  const outside = await startClient(second.self);
  const agents: Agent[] = [];
  const device = async (name = 'uplink'): Promise<DeviceView | undefined> =>
    (await node.status()).devices.find((one) => one.name === name);
  return {
    ...{ all, node, outside, wire, device, ethtool, run: execIn },
    async start(flags = XDP) {
      const agent = await node.startAgent(flags);
      agents.push(agent);
      return agent;
    },
    untilXdp: (state, name) =>
      until(async () => {
        const xdp = (await device(name))?.xdp;
        return xdp?.state === state ? xdp : undefined;
      }, `XDP to be ${state}`),
    async answers(port) {
      const all = Object.values(NODE).flatMap((address) =>
        PROTOCOLS.map((protocol) => outside.once({ address, port, protocol }, AT_ONCE_MS)),
      );
      return (await Promise.all(all)).map((one) =>
        one.kind === 'failed' ? one.code : one.backend,
      );
    },
    async evaluate(body) {
      const ifindex = (await device())?.ifindex ?? 0;
      const text = `const native = require('${ADDON}');
        const object = native.openObject(require('node:fs').readFileSync('${WATCH}'));
        object.load();
        const ifindex = ${ifindex};
        (async () => { ${body} })().then(() => console.log('done'));
        process.stdin.resume().once('end', () => process.exit());`;
      const argv = insideNamespace(node.self.namespace, [process.execPath, '-e', text]);
      const [first = '', ...rest] = argv;
      const lines: string[] = [];
      const child = startProcess(first, rest, {
        onStdoutLine: (line) => lines.push(line),
        onStderrLine: (line) => lines.push(line),
      });
      await until(() => lines.length > 0, 'it to be done');
      if (lines[0] !== 'done') throw new Error(lines.join('\n'));
      return {
        async end() {
          child.kill('SIGKILL');
          await child.exited;
        },
      };
    },
    async remove() {
      for (const agent of agents) await agent.stop();
      all.remove();
    },
  };
}
