// SPDX-License-Identifier: Apache-2.0
// What rules need of a lab node, and socket hooks do not: packets to Services leave the pod, the node routes them, and what
// one pod of the bridge sends another passes netfilter.

import { run } from '../../../src/sys/exec.ts';
import { insideSandbox, type Sandbox } from '../../../tools/lab/sandbox.ts';
import { SERVICE_RANGES } from '../../../tools/lab/wiring.ts';
import type { TestNode } from '../node.ts';

/** A node without a default route answers itself that there is none, before any rule. */
const DEFAULT_ROUTE = [
  'link add out type veth peer name out-peer',
  'link set out up',
  'link set out-peer up',
  'route add default dev out',
  '-6 route add default dev out',
];

export async function routeServices({
  self,
  sandboxes,
  servers,
}: Pick<TestNode, 'self' | 'sandboxes' | 'servers'>): Promise<void> {
  // Servers, too: a process of the node may connect from the address of a Service.
  for (const pod of [...sandboxes, ...servers]) {
    for (const range of SERVICE_RANGES)
      await inside(pod, ['ip', 'route', 'del', 'unreachable', range]);
  }
  for (const line of DEFAULT_ROUTE) await inside(self, ['ip', ...line.split(' ')]);
  for (const name of ['iptables', 'ip6tables']) {
    const path = `/proc/sys/net/bridge/bridge-nf-call-${name}`;
    await inside(self, ['sh', '-c', `echo 1 > ${path}`]);
  }
}

async function inside(sandbox: Sandbox, argv: readonly string[]): Promise<void> {
  const [program = '', ...args] = insideSandbox(sandbox, argv);
  const { code, stderr } = await run(program, args);
  if (code !== 0) throw new Error(`${argv.join(' ')}: ${stderr.trim()}`);
}
