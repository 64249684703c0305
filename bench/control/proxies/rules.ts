// SPDX-License-Identifier: Apache-2.0
// The rules that a proxy leaves in the namespace of its node.
import type { NodeHost } from '../../../src/lab/wiring.ts';
import { type RunOptions, type RunResult, run } from '../../../src/sys/exec.ts';
import { insideNamespace } from '../../../src/sys/netns.ts';
import type { ProxyName, Variant } from '../report/figures.ts';

const LONG_MS = 600_000;
const NO_RULES = ['nat', 'filter', 'mangle'].map((table) => `*${table}\nCOMMIT\n`).join('');
const RESTORES = ['iptables-legacy-restore', 'ip6tables-legacy-restore'];

type Node = Pick<NodeHost, 'namespace'>;

function runOn(
  { namespace }: Node,
  argv: readonly string[],
  options: RunOptions = {},
): Promise<RunResult> {
  const [program = '', ...args] = insideNamespace(namespace, argv);
  return run(program, args, { timeoutMs: LONG_MS, ...options });
}

/** undefined for a proxy without rules. */
export async function ruleLines(
  node: Node,
  proxy: ProxyName,
  variant: Variant,
): Promise<number | undefined> {
  if (proxy === 'fairlead') return undefined;
  const list = proxy === 'nftables' ? 'nft list ruleset' : `iptables-${variant}-save`;
  const { code, stdout, stderr } = await runOn(node, ['sh', '-c', `${list} | wc -l`]);
  if (code !== 0) throw new Error(`${list}: ${stderr.trim()}`);
  return Number(stdout);
}

/** The memory of a hundred thousand rules is not left to the next column. */
export async function removeRules(node: Node): Promise<void> {
  await runOn(node, ['nft', 'flush', 'ruleset']);
  for (const restore of RESTORES) await runOn(node, [restore], { stdin: NO_RULES });
}
