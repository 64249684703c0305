// SPDX-License-Identifier: Apache-2.0
// The rules that a proxy leaves in the namespace of its node.

import { run } from '../../../src/sys/exec.ts';
import { insideNamespace } from '../../../src/sys/netns.ts';
import type { NodeHost } from '../../../tools/lab/wiring.ts';
import type { ProxyName, Variant } from '../report/figures.ts';

const LONG_MS = 600_000;

/** undefined for a proxy without rules. */
export async function ruleLines(
  { namespace }: Pick<NodeHost, 'namespace'>,
  proxy: ProxyName,
  variant: Variant,
): Promise<number | undefined> {
  if (proxy === 'fairlead') return undefined;
  const isNftables = proxy === 'nftables' || proxy === 'fairlead-nftables';
  const list = isNftables ? 'nft list ruleset' : `iptables-${variant}-save`;
  const [program = '', ...args] = insideNamespace(namespace, ['sh', '-c', `${list} | wc -l`]);
  const { code, stdout, stderr } = await run(program, args, { timeoutMs: LONG_MS });
  if (code !== 0) throw new Error(`${list}: ${stderr.trim()}`);
  return Number(stdout);
}
