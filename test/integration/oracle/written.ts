// SPDX-License-Identifier: Apache-2.0
// What the real kube-proxy has written on a node of a stage.
import type { Family } from '../../../src/model/types.ts';
import type { Plan } from '../../../src/plan/types.ts';
import { run } from '../../../src/sys/exec.ts';
import { insideSandbox } from '../../../tools/lab/sandbox.ts';
import type { Stage } from '../../support/fixture/stage.ts';
import type { RULE_MODES } from './oracle.ts';

export type RuleMode = (typeof RULE_MODES)[number];

const TOOLS = {
  iptables: { IPv4: ['iptables-legacy-save'], IPv6: ['ip6tables-legacy-save'] },
  nftables: { IPv4: ['nft', '-y', 'list', 'ruleset'], IPv6: ['nft', '-y', 'list', 'ruleset'] },
} as const;

export interface WrittenRules {
  readonly rules: string;
  /** Addresses of the node, which rules ask the kernel for. */
  readonly own: readonly string[];
}

export async function rulesOf(
  stage: Stage,
  node: string,
  mode: RuleMode,
  family: Family,
): Promise<WrittenRules> {
  const inNode = async (argv: readonly string[]): Promise<string> => {
    const [program = '', ...args] = insideSandbox(stage.cluster.sandbox(node), argv);
    return (await run(program, args)).stdout;
  };
  const devices: readonly { addr_info: { local: string; scope: string }[] }[] = JSON.parse(
    await inNode(['ip', '-json', 'address']),
  );
  const own = devices
    .flatMap(({ addr_info: addresses }) => addresses)
    .flatMap(({ local, scope }) => (scope === 'global' ? [local] : []));
  return { rules: await inNode(TOOLS[mode][family]), own };
}

export const withAddresses = (plan: Plan, own: readonly string[]): Plan => ({
  ...plan,
  node: { ...plan.node, localAddresses: own },
});

/** The Service that each change of the fixture waits for. */
const SENTINEL = /10\.96\.255\.254|fd00:96::fffe/;

export const withoutSentinel = (lines: readonly string[]): readonly string[] =>
  lines.filter((line) => !SENTINEL.test(line));
