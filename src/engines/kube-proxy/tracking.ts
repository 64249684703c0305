// SPDX-License-Identifier: Apache-2.0
// Connections that kube-proxy has translated go on without its rules only as long as the kernel tracks connections, which
// it does in a network namespace only while some rule there needs it, and translates as long as there is a chain of type
// nat. Where nothing else does, something of kube-proxy's stays that matches no packet. Measured in
// test/integration/cluster/leftovers.
import { FAMILIES, type Family } from '../../model/types.ts';

/**
 * Connections whose destination was translated, by family, in /proc/net/nf_conntrack: the reply does not come from where
 * the original went. `ipv4 2 tcp 6 86399 ESTABLISHED src=A dst=B sport=1 dport=80 src=C dst=A sport=8080 dport=1 …`
 */
export function translatedConnections(table: string): ReadonlyMap<Family, number> {
  const counts = new Map<Family, number>();
  for (const line of table.split('\n')) {
    const family = line.startsWith('ipv6') ? 'IPv6' : 'IPv4';
    const [to] = valuesOf(line, 'dst');
    const [, from] = valuesOf(line, 'src');
    const [port] = valuesOf(line, 'dport');
    const [, repliesFrom] = valuesOf(line, 'sport');
    if (from === undefined || (to === from && port === repliesFrom)) continue;
    counts.set(family, (counts.get(family) ?? 0) + 1);
  }
  return counts;
}

const valuesOf = (line: string, key: string): readonly string[] =>
  [...line.matchAll(new RegExp(` ${key}=(\\S+)`, 'g'))].map(([, value = '']) => value);

/** A rule as iptables-save prints it: whether it needs connection tracking. */
export function isTracking(rule: string): boolean {
  const words = ` ${rule.replace(/"(?:[^"\\]|\\.)*"/g, '""')}`;
  return (
    / -m (?:conntrack|state|connmark|connbytes|connlimit|connlabel|helper|cluster)\b/.test(words) ||
    / -j (?:DNAT|SNAT|MASQUERADE|REDIRECT|NETMAP|CONNMARK|CONNSECMARK|SYNPROXY|CT)\b/.test(words)
  );
}

export interface TrackingFacts {
  /** undefined: the kernel does not list its connections. */
  readonly translated: ReadonlyMap<Family, number> | undefined;
  /** Families in which rules of others need connection tracking. */
  readonly others: ReadonlySet<Family>;
}

/** Why something has to stay, for each family in which something has to. */
export function neededForTracking({
  translated,
  others,
}: TrackingFacts): ReadonlyMap<Family, string> {
  const reason = (count: number | undefined): string =>
    `${count ?? 'an unknown number of'} ${count === 1 ? 'connection is' : 'connections are'} translated, and no other rule makes the kernel track connections: run this again when they have ended`;
  return new Map(
    FAMILIES.filter((family) => !others.has(family))
      .filter((family) => translated === undefined || translated.has(family))
      .map((family) => [family, reason(translated?.get(family))]),
  );
}
