// SPDX-License-Identifier: Apache-2.0
// What a network card does, the ends of veth pairs are told: the wire takes frames of XDP (gro), and senders fill in checksums
// (tx), because there is no card behind them that would.
import { fileURLToPath } from 'node:url';
import { run } from '../../../../../src/sys/exec.ts';
import { insideNamespace } from '../../../../../src/sys/netns.ts';
import type { TestNode } from '../../../../support/node.ts';
import { compiled } from '../../../../support/programs/compiled.ts';

const ETHTOOL = fileURLToPath(new URL('./ethtool.c', import.meta.url));

/** What it prints. */
export async function execIn(namespace: string, ...argv: readonly string[]): Promise<string> {
  const [first = '', ...rest] = insideNamespace(namespace, argv);
  const { code, stdout, stderr } = await run(first, rest);
  if (code !== 0) throw new Error(`${argv.join(' ')}: ${stderr}${stdout}`);
  return stdout;
}

export async function ethtool(
  namespace: string,
  device: string,
  feature: 'gro' | 'tx',
  state: 'on' | 'off',
): Promise<void> {
  await execIn(namespace, compiled(ETHTOOL), device, feature, state);
}

/** @param ends of the wire, whose nodes have XDP */
export async function asCards(
  wire: string,
  ends: readonly string[],
  senders: readonly TestNode[],
): Promise<void> {
  for (const end of ends) await ethtool(wire, end, 'gro', 'on');
  for (const { self, servers, sandboxes } of senders) {
    await ethtool(self.namespace, 'uplink', 'tx', 'off');
    for (const { namespace } of [...servers, ...sandboxes])
      await ethtool(namespace, 'eth0', 'tx', 'off');
  }
}
