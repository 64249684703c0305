// SPDX-License-Identifier: Apache-2.0
// Which of the two kernel interfaces of iptables is in use on the node: rules of one run after all rules of the other,
// so that everybody on a node has to use the same. As kubernetes-sigs/iptables-wrappers decides: where the kubelet
// has put its chains, else where there are more rules, else nft.
//   chooseVariant({ nft: { hasHint: false, rules: 2 }, legacy: { hasHint: false, rules: 40 } })
//     -> { variant: 'legacy', why: '40 rules in legacy, 2 in nft' }

export type Variant = 'nft' | 'legacy';

/** In one transaction: more take longer with nft, and with legacy each transaction writes the whole table. */
export const CHAINS_AT_ONCE: Readonly<Record<Variant, number>> = {
  nft: 500,
  legacy: Number.POSITIVE_INFINITY,
};

/** What `iptables-VARIANT-save` of both families says. */
export interface Reading {
  /** The kubelet's chains are there: KUBE-IPTABLES-HINT or, before Kubernetes 1.24, KUBE-KUBELET-CANARY. */
  readonly hasHint: boolean;
  /** Without those of KUBE-FIREWALL, which stays where a kubelet or a proxy has been. */
  readonly rules: number;
}

/** One line that says why it cannot be used. */
export interface Unusable {
  readonly reason: string;
}

export type VariantFacts = Readonly<Record<Variant, Reading | Unusable>>;

export interface Choice {
  readonly variant: Variant;
  readonly why: string;
}

/** undefined: neither can be used. */
export function chooseVariant({ nft, legacy }: VariantFacts): Choice | undefined {
  if ('reason' in nft) {
    return 'reason' in legacy ? undefined : { variant: 'legacy', why: nft.reason };
  }
  if ('reason' in legacy) return { variant: 'nft', why: legacy.reason };
  if (nft.hasHint) return { variant: 'nft', why: "the kubelet's chains are in nft" };
  if (legacy.hasHint) return { variant: 'legacy', why: "the kubelet's chains are in legacy" };
  return legacy.rules > nft.rules
    ? { variant: 'legacy', why: `${legacy.rules} rules in legacy, ${nft.rules} in nft` }
    : { variant: 'nft', why: `${nft.rules} rules in nft, ${legacy.rules} in legacy` };
}

/** @param outputs of iptables-save and ip6tables-save */
export function readingOf(outputs: readonly string[]): Reading {
  return {
    hasHint: outputs.some((output) => /^:KUBE-(?:IPTABLES-HINT|KUBELET-CANARY) /m.test(output)),
    rules: outputs.reduce(
      (sum, output) => sum + (output.match(/^-A (?!.*\bKUBE-FIREWALL\b)/gm)?.length ?? 0),
      0,
    ),
  };
}
