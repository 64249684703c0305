// SPDX-License-Identifier: Apache-2.0
// A node with the rules of another proxy, on which containers of the image are started with parts of it missing or broken.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mountBpffs } from '../../../src/lab/mounting.ts';
import { insideSandbox } from '../../../src/lab/sandbox.ts';
import { run } from '../../../src/sys/exec.ts';
import { service, target } from '../../support/builders.ts';
import { routeServices } from '../../support/iptables/routed-node.ts';
import { startNodes } from '../../support/node.ts';
import { agentSpec, type Without } from './agent.ts';
import { type Container, startContainer } from './container.ts';
import type { Image, RunnableImage } from './image.ts';
import { makeMachine } from './machine.ts';

export interface Files {
  readonly [name: string]: string;
}

export interface BrokenNode {
  /** @param other an image that is not this processor's */
  start(without: Without, other?: Image): Promise<Container>;
  /** Those of iptables-nft, without counters. */
  rules(): Promise<readonly string[]>;
  /** Who answers five connections to the Service. */
  answers(): Promise<Readonly<Record<string, number>>>;
  /** A folder of the node with these files; `limits`: on a tmpfs with these options. */
  folder(name: string, files: Files, limits?: string): Promise<string>;
  /** Ends what start() has started since: no fairlead is left, and the old rules are as they were. */
  reset(): Promise<void>;
  remove(): void;
}

const WEB = { n: 1 };

/** What kube-proxy in iptables mode would have for the Service. */
const oldProxy = (backend: string): string => `*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-OLDPROXYOLDPROXY - [0:0]
:KUBE-SEP-OLDPROXYOLDPROXY - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d ${target(WEB).address}/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-OLDPROXYOLDPROXY
-A KUBE-SVC-OLDPROXYOLDPROXY -j KUBE-SEP-OLDPROXYOLDPROXY
-A KUBE-SEP-OLDPROXYOLDPROXY -p tcp -m tcp -j DNAT --to-destination ${backend}:8080
COMMIT
`;

export async function startBrokenNode(image: RunnableImage): Promise<BrokenNode> {
  const nodes = await startNodes([{ name: 'n1', servers: ['web-1'], clients: ['client'] }]);
  const node = nodes.nodes[0]!;
  const started: Container[] = [];
  const inNode = async (argv: readonly string[], stdin = ''): Promise<string> => {
    const [program = '', ...args] = insideSandbox(node.self, argv);
    const { code, stdout, stderr } = await run(program, args, { stdin });
    if (code !== 0) throw new Error(`${argv.join(' ')}: ${stderr.trim()}`);
    return stdout;
  };
  const metadata = { name: node.instance.nodeName };
  node.manifests.put('node.yaml', [{ apiVersion: 'v1', kind: 'Node', metadata }]);
  node.manifests.put('web.yaml', service('web', WEB, node.servers));
  await routeServices(node);
  const rooted = await makeMachine(nodes, image);
  await mountBpffs(join(rooted.root, 'sys/fs/bpf'));
  const restoreRules = (): Promise<string> =>
    inNode(['iptables-nft-restore'], oldProxy(node.servers[0]!.ipv4));
  await restoreRules();
  const start: BrokenNode['start'] = async (without, other) => {
    const spec = agentSpec(rooted, node.instance.manifests.path, without);
    const container = await startContainer(
      { ...rooted.machine, image: { ...image, ...other } },
      spec,
    );
    started.push(container);
    return container;
  };
  return {
    start,
    rules: async () =>
      (await inNode(['iptables-nft-save'])).split('\n').filter((line) => line.startsWith('-A')),
    answers: async () => (await node.client().burst(target(WEB), { connections: 5 })).hits,
    folder: async (name, files, limits) => {
      const path = join(rooted.machine.directory, name);
      mkdirSync(path, { recursive: true });
      if (limits !== undefined) await run('mount', ['-t', 'tmpfs', '-o', limits, 'tmpfs', path]);
      for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text);
      return path;
    },
    reset: async () => {
      const end = () => Promise.all(started.splice(0).map((container) => container.remove()));
      await end();
      await (await start({ args: ['cleanup'] })).exited;
      await end();
      await restoreRules();
    },
    remove: () => nodes.remove(),
  };
}
