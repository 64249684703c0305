// SPDX-License-Identifier: Apache-2.0
// Where our rules are not those of kube-proxy 1.37 for the same objects, on purpose: docs/semantics.md names them.
import type { Story } from '../../conformance/story.ts';
import type { SavedChains } from './saved.ts';

export interface Difference {
  readonly name: string;
  /** `filter KUBE-SERVICES`. */
  readonly chain: RegExp;
  /** Of rules, as iptables-save prints them. */
  readonly ours?: RegExp;
  readonly theirs?: RegExp;
  /** It is seen in these stories only. */
  readonly cases?: readonly Story['case'][];
}

const OTHER_PORTS: readonly Difference[] = [
  {
    name: 'unknown-port-passes',
    chain: /^filter KUBE-(CLUSTER-IPS|SERVICES)$/,
    ours: /KUBE-CLUSTER-IPS/,
  },
  { name: 'unsigned-rules', chain: /^nat KUBE-(CLUSTER-IPS|MARK-MASQ)$/, ours: /KUBE-CLUSTER-IPS/ },
];

const NODE_PORTS: readonly Difference[] = [
  {
    name: 'neighbour-reaches-loopback',
    chain: /^nat KUBE-SERVICES$/,
    ours: / -d 127\.0\.0\.0\/8 .* -j KUBE-NODEPORTS$/,
    theirs: /-A KUBE-SERVICES -m comment .* --dst-type LOCAL -j KUBE-NODEPORTS$/,
  },
  {
    name: 'node-ports-by-prefix',
    chain: /^nat KUBE-SERVICES$/,
    ours: /-A KUBE-SERVICES -d .* --dst-type LOCAL -j KUBE-NODEPORTS$/,
    theirs: /-A KUBE-SERVICES -d [\da-f.:]+\/(32|128) .* -j KUBE-NODEPORTS$/,
  },
  {
    name: 'refusals-on-loopback',
    chain: /^filter KUBE-EXTERNAL-SERVICES$/,
    ours: /no kubernetes service nodeports on loopback addresses/,
  },
  {
    name: 'refusals-by-prefix',
    chain: /^filter KUBE-EXTERNAL-SERVICES$/,
    ours: / -d .* -m addrtype --dst-type LOCAL /,
    theirs: /-A KUBE-EXTERNAL-SERVICES -p .* -m addrtype --dst-type LOCAL /,
  },
  {
    name: 'idle-martian-guard',
    chain: /^filter (INPUT|OUTPUT)$/,
    theirs: /-j KUBE-FIREWALL$/,
  },
  {
    name: 'idle-martian-guard',
    chain: /^filter KUBE-FIREWALL$/,
    theirs: /block incoming localnet connections/,
    cases: [76, 78, 'refused-node-port'],
  },
];

const EXTERNAL: readonly Difference[] = [
  {
    name: 'host-passes-without-endpoints',
    chain: /^filter OUTPUT$/,
    ours: /-j KUBE-EXTERNAL-SERVICES$/,
  },
  {
    name: 'ranges-need-endpoints',
    chain: /^filter KUBE-PROXY-FIREWALL$/,
    ours: / has source ranges and no endpoints|-s .* has no endpoints/,
    cases: [109],
  },
  {
    name: 'unreadable-range-ignored',
    chain: /^(nat KUBE-SERVICES|nat KUBE-FW-\w+|filter KUBE-PROXY-FIREWALL)$/,
    ours: /KUBE-FW-|KUBE-PROXY-FIREWALL/,
    theirs: /loadbalancer IP.* -j KUBE-EXT-/,
    cases: ['ranges-unreadable'],
  },
  {
    name: 'external-ip-bypasses-ranges',
    chain: /^nat KUBE-SERVICES$/,
    theirs: /external IP.* -j KUBE-EXT-/,
    cases: ['external-vip'],
  },
];

export const DIFFERENCES: readonly Difference[] = [...OTHER_PORTS, ...NODE_PORTS, ...EXTERNAL];

/**
 * Chains whose order is that of Services, which is a random one in kube-proxy, or that of source ranges, which the plan
 * sorts.
 */
const UNORDERED = /KUBE-(SERVICES|EXTERNAL-SERVICES|NODEPORTS|PROXY-FIREWALL|FW-\w+)$/;

export interface Compared {
  /** `+` in kube-proxy's rules alone, `-` in ours alone, `~` in another order; each with its chain. */
  readonly unknown: readonly string[];
  /** The names of the differences that there are. */
  readonly known: readonly string[];
}

export function compareRules(
  story: Story['case'],
  ours: SavedChains,
  theirs: SavedChains,
): Compared {
  const unknown: string[] = [];
  const known = new Set<string>();
  for (const chain of [...new Set([...ours.keys(), ...theirs.keys()])].sort()) {
    const mine = ours.get(chain) ?? [];
    const other = theirs.get(chain) ?? [];
    const differing = [
      ...other
        .filter((rule) => !mine.includes(rule))
        .map((rule) => ({ whose: 'theirs', rule }) as const),
      ...mine
        .filter((rule) => !other.includes(rule))
        .map((rule) => ({ whose: 'ours', rule }) as const),
    ];
    for (const { whose, rule } of differing) {
      const found = nameOf({ story, chain, whose, rule });
      if (found === undefined) unknown.push(`${whose === 'ours' ? '-' : '+'} ${chain}: ${rule}`);
      else known.add(found);
    }
    const isOrdered = differing.length === 0 && !UNORDERED.test(chain);
    if (isOrdered && mine.join() !== other.join()) unknown.push(`~ ${chain}: ${other.join('; ')}`);
  }
  return { unknown, known: [...known] };
}

interface Differing {
  readonly story: Story['case'];
  readonly chain: string;
  readonly whose: 'ours' | 'theirs';
  readonly rule: string;
}

const nameOf = ({ story, chain, whose, rule }: Differing): string | undefined =>
  DIFFERENCES.find(
    ({ cases, ...one }) =>
      cases?.includes(story) !== false && one.chain.test(chain) && one[whose]?.test(rule),
  )?.name;
