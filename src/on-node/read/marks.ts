// SPDX-License-Identifier: Apache-2.0
// Reads which rules of netfilter write marks. The rules of a Service proxy are left out: they are many, and their mark is known.
import { FAMILIES } from '../../model/types.ts';
import { hasLegacyTable, rulesGeneration } from '../../sys/netfilter.ts';
import { nftMarks } from '../../sys/netlink/nft/marks.ts';
import type { MarkTarget } from '../facts.ts';

/** Of kube-proxy, the kubelet and fairlead. */
const OWN_CHAIN = /^(KUBE-|FAIRLEAD-)/;

/** Reads again only if a rule has changed since. */
export function createMarksReader(): () => readonly MarkTarget[] {
  let last: { readonly generation: number; readonly marks: readonly MarkTarget[] } | undefined;
  return () => {
    for (const family of FAMILIES) {
      if (!hasLegacyTable(family, 'mangle')) continue;
      const tool = family === 'IPv4' ? 'iptables' : 'ip6tables';
      throw new Error(
        `the table mangle of iptables-legacy is in use: see \`${tool}-legacy -t mangle -S\``,
      );
    }
    const generation = rulesGeneration();
    if (generation !== undefined && last?.generation === generation) return last.marks;
    const marks = nftMarks(isAsked).filter(({ chain }) => !OWN_CHAIN.test(chain));
    last = generation === undefined ? undefined : { generation, marks };
    return marks;
  };
}

/** The table nat has the chains of Services, a hundred thousand on a large cluster. */
const isAsked = (family: string, table: string): boolean =>
  table !== 'kube-proxy' && !(table === 'nat' && ['ip', 'ip6'].includes(family));
