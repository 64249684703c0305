// SPDX-License-Identifier: Apache-2.0
// Names that stand for others: first all are met, then each gets one, in the same order, so that what was decided by the order of
// names is decided alike. Pure.

/** They say nothing of a cluster: every one has them, or they are words of the formats in a capture. */
const KEPT: ReadonlySet<string> = new Set(
  `default kubernetes kube-system kube-public kube-node-lease kube-dns localhost TCP UDP SCTP IPv4 IPv6`.split(
    /\s+/,
  ),
);

/** Words that texts and rules have for themselves: a name that is one of them stays in texts, and is replaced where it is a name. */
const WORDS: ReadonlySet<string> = new Set(
  `accept account action add address addresses affinity agent allow allowed also an and any api are as at audit auto
  backend backends base be been bpf bridge but by cannot chain cidr client clients cluster comment connect connection
  connections constant conntrack count counter ct daddr data decision dest destination device devices dnat does done
  down drop drops dst dump echo elements empty endpoint endpoints end error errors exit external failed fairlead false
  family filter firewall flags flow for forward forwarding forwards from frontend frontends full gateway goto group
  hairpin handle has have hint hints hook host http https hybrid id if iif iifname in input interface internal into ip
  ipip iptables is it its jump kernel key kind kube-proxy label lacks level limit line link list load loadbalancer
  local log maglev map maps mark mask masq masquerade match mesh metadata metric mode module msg name namespace nat
  nft nftables no node nodeport nodes none normal not null number numgen of offset ok on or other out outside output
  packet packets packet-filter pass passes path peer pid plan pod pods policy port ports postrouting prefer prerouting
  priority probability probe problem programmed proto protocol proxy random range ranges read reads ready reason
  reject rejected response return route router routing rule rules running saddr same scope select serve served server
  service services serves session set sets shadow size snat socket sockets source sport src stale start started
  state static statistic status sync system table tables target tc terminating test th the this to topology traffic
  true type unreachable up update used user userspace utf-8 value values veth via vlan vmap vxlan was was with within
  without words write xdp zone tcp udp sctp ip6 inet icmp lo any round-robin weighted-random weighted-round-robin
  least-connections weighted-least-connections source-hash port-map same-node same-zone prefer-zone prefer-node
  node-process not-served`.split(/\s+/),
);

export const HIDDEN_TEXT = 'redacted';

export const isKept = (name: string): boolean => KEPT.has(name) || name === '';

/** Too short to find in a text without finding it everywhere. */
const SHORTEST = 3;

export const isWord = (name: string): boolean =>
  name.length < SHORTEST || WORDS.has(name) || isKept(name) || /^\d+$/.test(name);

export interface Names {
  /** What stands for it; until `resolve` the name itself, which is noted. */
  alias(name: string): string;
  resolve(): void;
  /** For a word that may be a name: what stands for it, or a word that says nothing. It is not noted. */
  hide(word: string): string;
  /** Those that are replaced, and in texts, too. */
  inTexts(): readonly string[];
}

export function createNames(): Names {
  const known = new Map<string, string>();
  let isResolved = false;
  const numbered = (at: number, count: number): string =>
    `name-${String(at).padStart(String(count).length, '0')}`;
  return {
    alias(name) {
      if (isKept(name)) return name;
      const found = known.get(name);
      if (found !== undefined) return found;
      // One that is met late comes after all others.
      known.set(name, isResolved ? `name-x${known.size}` : name);
      return known.get(name) ?? name;
    },
    resolve() {
      isResolved = true;
      const sorted = [...known.keys()].sort();
      for (const [at, name] of sorted.entries()) known.set(name, numbered(at, sorted.length));
    },
    hide: (word) => (isWord(word) ? word : (known.get(word) ?? HIDDEN_TEXT)),
    inTexts: () => [...known.keys()].filter((name) => !isWord(name)),
  };
}
