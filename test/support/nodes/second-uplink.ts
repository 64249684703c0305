// SPDX-License-Identifier: Apache-2.0
// A second uplink of n1, as a second network interface of a cloud: a network of its own, where the router drops what
// comes with an address of another one, and pods whose addresses are routed by it alone.
import type { OtherNode } from './other-node.ts';

export const SECOND = {
  ipv4: '192.0.3.11',
  ipv6: '2001:db8:3::11',
  router: { ipv4: '192.0.3.1', ipv6: '2001:db8:3::1' },
} as const;

const TABLE = 2;

/** The first two are pods of n1 with addresses of the second uplink: A, which has a server, and p1. */
const ON_SECOND = [
  { ipv4: '10.1.1.5', ipv6: '2001:db8:1:1::5' },
  { ipv4: '10.1.1.9', ipv6: '2001:db8:1:1::9' },
] as const;

const FAMILIES = ['ipv4', 'ipv6'] as const;
const LENGTH = { ipv4: 32, ipv6: 128 } as const;

/** Adds eth1 to n1, and rules `from POD lookup 2` for these pods. */
export async function addSecondUplink(
  { stage, run, nft }: OtherNode,
  pods: readonly { readonly ipv4: string; readonly ipv6: string }[] = ON_SECOND,
): Promise<void> {
  const { cluster, ip } = stage();
  await ip('wire', [
    `link add u-n1b type veth peer name eth1 netns ${cluster.prefix}-n1`,
    `addr add ${SECOND.router.ipv4}/24 dev u-n1b`,
    `addr add ${SECOND.router.ipv6}/64 dev u-n1b nodad`,
    'link set u-n1b up',
  ]);
  await ip('n1', [
    `addr add ${SECOND.ipv4}/24 dev eth1`,
    `addr add ${SECOND.ipv6}/64 dev eth1 nodad`,
    'link set eth1 up',
    ...FAMILIES.map((family) => `route add default via ${SECOND.router[family]} table ${TABLE}`),
  ]);
  for (const pod of pods) {
    for (const family of FAMILIES) {
      const [flag, length] = [family === 'ipv4' ? '-4' : '-6', LENGTH[family]];
      const rule = ['rule', 'add', 'from', `${pod[family]}/${length}`, 'lookup', String(TABLE)];
      await run('n1', ['ip', flag, ...rule, 'pref', '1536']);
      // The second uplink has these addresses: what is for them comes in by it.
      await ip('wire', [`route add ${pod[family]}/${length} via ${SECOND[family]}`]);
    }
    await run('n1', ['ip', 'rule', 'add', 'to', `${pod.ipv4}/32`, 'lookup', 'main', 'pref', '512']);
  }
  // Nobody may send by an uplink with an address that is not behind it.
  await nft(
    'wire',
    `table inet source-check {
      chain prerouting {
        type filter hook prerouting priority raw; policy accept;
        iifname { "u-n1", "u-n1b", "br0" } ip saddr { 192.0.2.11, 192.0.3.11 } fib saddr . iif oif missing drop
        iifname { "u-n1", "u-n1b", "br0" } ip6 saddr { 2001:db8::11, 2001:db8:3::11 } fib saddr . iif oif missing drop
        iifname "u-n1b" ip saddr 203.0.113.0/24 drop
      }
    }`,
  );
}

/** What this node's own connections from the address of the second uplink leave by: as hosts with several uplinks have it. */
export async function addSourceRule({ run }: OtherNode): Promise<void> {
  for (const [flag, address] of [
    ['-4', SECOND.ipv4],
    ['-6', SECOND.ipv6],
  ] as const) {
    await run('n1', ['ip', flag, 'rule', 'add', 'from', address, 'lookup', String(TABLE)]);
  }
}
