// SPDX-License-Identifier: Apache-2.0
// A node with the rules of another proxy, on which containers of the image are started with parts of it missing or broken.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../../src/sys/exec.ts';
import { insideSandbox } from '../../../tools/lab/sandbox.ts';
import { target } from '../../support/builders.ts';
import { type AgentNode, startAgentNode } from './agent-node.ts';
import type { RunnableImage } from './image.ts';

export interface Files {
  readonly [name: string]: string;
}

export interface BrokenNode extends AgentNode {
  /** Those of iptables-nft, without counters. */
  rules(): Promise<readonly string[]>;
  /** A folder of the node with these files; `limits`: on a tmpfs with these options. */
  folder(name: string, files: Files, limits?: string): Promise<string>;
  /** Ends what start() has started since: no fairlead is left, and the old rules are as they were. */
  reset(): Promise<void>;
}

/** What kube-proxy in iptables mode would have for the Service. */
const oldProxy = (backend: string): string => `*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-OLDPROXYOLDPROXY - [0:0]
:KUBE-SEP-OLDPROXYOLDPROXY - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d ${target({ n: 1 }).address}/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-OLDPROXYOLDPROXY
-A KUBE-SVC-OLDPROXYOLDPROXY -j KUBE-SEP-OLDPROXYOLDPROXY
-A KUBE-SEP-OLDPROXYOLDPROXY -p tcp -m tcp -j DNAT --to-destination ${backend}:8080
COMMIT
`;

export async function startBrokenNode(image: RunnableImage): Promise<BrokenNode> {
  const made = await startAgentNode(image);
  const { node, machine } = made;
  const inNode = async (argv: readonly string[], stdin = ''): Promise<string> => {
    const [program = '', ...args] = insideSandbox(node.self, argv);
    const { code, stdout, stderr } = await run(program, args, { stdin });
    if (code !== 0) throw new Error(`${argv.join(' ')}: ${stderr.trim()}`);
    return stdout;
  };
  const restoreRules = (): Promise<string> =>
    inNode(['iptables-nft-restore'], oldProxy(node.servers[0]!.ipv4));
  await restoreRules();
  return {
    ...made,
    rules: async () =>
      (await inNode(['iptables-nft-save'])).split('\n').filter((line) => line.startsWith('-A')),
    folder: async (name, files, limits) => {
      const path = join(machine.directory, name);
      mkdirSync(path, { recursive: true });
      if (limits !== undefined) await run('mount', ['-t', 'tmpfs', '-o', limits, 'tmpfs', path]);
      for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text);
      return path;
    },
    reset: async () => {
      await made.end();
      await (await made.start({ args: ['cleanup'] })).exited;
      await made.end();
      await restoreRules();
    },
  };
}
