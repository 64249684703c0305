// SPDX-License-Identifier: Apache-2.0
// Which rules of a node are kube-proxy's, and what removes them and nothing else.
import { describe, expect, test } from 'vitest';
import { heldTables } from '../../../../src/engines/iptables/state/diff/text.ts';
import { ownerOf } from '../../../../src/engines/kube-proxy/own-rules.ts';
import {
  keepingTracked,
  remainingRules,
  ruleLeftovers,
  ruleRemoval,
  ruleRows,
} from '../../../../src/engines/kube-proxy/rules.ts';

/** A node after kube-proxy has ended: kubelet, a NetworkPolicy plugin and portmap have rules, too. */
const NODE = `*mangle
:PREROUTING ACCEPT [0:0]
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-PROXY-CANARY - [0:0]
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-POD-FW-2V3X - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A FORWARD -j KUBE-POD-FW-2V3X
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-POD-FW-2V3X -j ACCEPT
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
:KUBE-MARK-DROP - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.1.0.9:80
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -j MASQUERADE
-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m tcp -j DNAT --to-destination 10.1.0.5:80
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-AAAAAAAAAAAAAAAA
COMMIT
`;
const found = ruleLeftovers(heldTables(NODE));

test('kube-proxy’s chains and jumps, and nothing of the kubelet or of plugins', () => {
  const { leftovers, kept } = ruleRows(found, 'iptables-nft IPv4');
  expect(kept).toEqual([]);
  expect(
    leftovers.map(({ kind, where, what, count }) => [kind, where, what, count].join(' ')),
  ).toEqual([
    'chain iptables-nft IPv4 mangle KUBE-PROXY-CANARY 0',
    'jump iptables-nft IPv4 filter FORWARD -> KUBE-FORWARD 1',
    'jump iptables-nft IPv4 filter FORWARD -> KUBE-SERVICES 1',
    'chain iptables-nft IPv4 filter KUBE-FORWARD 2',
    'chain iptables-nft IPv4 filter KUBE-PROXY-CANARY 0',
    'chain iptables-nft IPv4 filter KUBE-SERVICES 0',
    'jump iptables-nft IPv4 nat PREROUTING -> KUBE-SERVICES 1',
    'jump iptables-nft IPv4 nat POSTROUTING -> KUBE-POSTROUTING 1',
    'chain iptables-nft IPv4 nat KUBE-MARK-MASQ 1',
    'chain iptables-nft IPv4 nat KUBE-POSTROUTING 1',
    'chain iptables-nft IPv4 nat KUBE-SEP-AAAAAAAAAAAAAAAA 1',
    'chain iptables-nft IPv4 nat KUBE-SERVICES 1',
    'chain iptables-nft IPv4 nat KUBE-SVC-AAAAAAAAAAAAAAAA 1',
  ]);
});

test('jumps go before the chains that they lead to', () => {
  const [jumpsAndNat = ''] = ruleRemoval(found).split('*mangle');
  expect(jumpsAndNat).toMatchInlineSnapshot(`
    "*filter
    -D FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
    COMMIT
    *nat
    -D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
    -D POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
    :KUBE-MARK-MASQ - [0:0]
    :KUBE-POSTROUTING - [0:0]
    :KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]
    :KUBE-SERVICES - [0:0]
    :KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
    -X KUBE-MARK-MASQ
    -X KUBE-POSTROUTING
    -X KUBE-SEP-AAAAAAAAAAAAAAAA
    -X KUBE-SERVICES
    -X KUBE-SVC-AAAAAAAAAAAAAAAA
    COMMIT
    "
  `);
});

test('a node without kube-proxy’s rules is left alone', () => {
  const others = NODE.split('\n').filter(
    (line) => !/KUBE-(?:FORWARD|S|PROXY|MARK-MASQ|POST)/.test(line),
  );
  const nothing = ruleLeftovers(heldTables(others.join('\n')));
  expect(nothing).toEqual({ tables: [], kept: [], isFairleads: false });
  expect(ruleRemoval(nothing)).toBe('');
});

describe('what others need stays', () => {
  const foreign = (rule: string, before = '-A KUBE-MARK-MASQ') =>
    ruleLeftovers(heldTables(NODE.replace(before, `${rule}\n${before}`)));
  const whats = (leftovers: ReturnType<typeof ruleLeftovers>) =>
    ruleRows(leftovers, '').leftovers.map(({ what }) => what);

  test('portmap that marks with kube-proxy’s chain keeps the mark and the masquerade', () => {
    const rule = '-A CNI-HOSTPORT-DNAT -s 10.1.0.0/16 -j KUBE-MARK-MASQ';
    const left = foreign(rule);
    expect(left.kept).toEqual([
      {
        what: 'nat KUBE-MARK-MASQ',
        reason: 'a rule of CNI-HOSTPORT-DNAT needs it: -s 10.1.0.0/16 -j KUBE-MARK-MASQ',
      },
      { what: 'nat KUBE-POSTROUTING', reason: 'KUBE-MARK-MASQ stays' },
    ]);
    expect(whats(left)).not.toContain('KUBE-MARK-MASQ');
    expect(whats(left)).not.toContain('POSTROUTING -> KUBE-POSTROUTING');
    expect(whats(left)).toContain('KUBE-SERVICES');
  });

  test('a jump from a built-in chain that kube-proxy did not write, with all it leads to', () => {
    const left = foreign('-A PREROUTING -i tailscale0 -j KUBE-SERVICES');
    expect(left.kept.map(({ what }) => what)).toEqual([
      'nat KUBE-SERVICES',
      'nat KUBE-SVC-AAAAAAAAAAAAAAAA',
      'nat KUBE-SEP-AAAAAAAAAAAAAAAA',
    ]);
    expect(whats(left)).not.toContain('PREROUTING -> KUBE-SERVICES');
    expect(ruleRemoval(left)).not.toMatch(/KUBE-S(?:VC|EP)-/);
  });
});

test('the chains of fairlead’s iptables engine are no leftovers; once kube-proxy has taken them over, they are', () => {
  const ours = NODE.replace(':KUBE-FORWARD', ':KUBE-CLUSTER-IPS - [0:0]\n:KUBE-FORWARD');
  const jump = '-A KUBE-SERVICES -d 10.96.0.0/12 -p tcp -j KUBE-CLUSTER-IPS\n-A KUBE-POD-FW';
  const kept = ruleLeftovers(heldTables(ours.replace('-A KUBE-POD-FW', jump)));
  expect(kept).toEqual({ tables: [], kept: [], isFairleads: true });
  const taken = ruleRows(ruleLeftovers(heldTables(ours)), '').leftovers;
  expect(taken.map(({ what }) => what)).toContain('KUBE-CLUSTER-IPS');
});

test('a chain that tracks connections stays without a jump while that is needed', () => {
  const left = keepingTracked(found, 'one connection');
  expect(left.kept).toEqual([
    { what: 'filter KUBE-FORWARD, without a jump to it', reason: 'one connection' },
  ]);
  const input = ruleRemoval(left);
  expect(input).toContain(
    '-D FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD',
  );
  expect(input).not.toMatch(/^(?::|-X )KUBE-FORWARD/m);
});

test('what remains is what others have', () => {
  const rules = remainingRules(heldTables(NODE), found);
  expect(rules).toHaveLength(6);
  expect(rules.filter((rule) => /KUBE-(?!FIREWALL|POD)/.test(rule))).toEqual([]);
});

describe('rules of fairlead’s own iptables engine', () => {
  const MARKER = ':KUBE-CLUSTER-IPS - [0:0]';
  const ours = heldTables(
    NODE.replace(':KUBE-FORWARD', `${MARKER}\n:KUBE-FORWARD`).replace(
      '-A KUBE-POD-FW',
      '-A KUBE-SERVICES -d 10.96.0.0/12 -p tcp -j KUBE-CLUSTER-IPS\n-A KUBE-POD-FW',
    ),
  );
  const retired = heldTables(
    `*filter\n:KUBE-FORWARD - [0:0]\n${MARKER}\n-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\nCOMMIT\n`,
  );

  test('serve, are kept for connections, or are kube-proxy’s', () => {
    expect(ownerOf(ours)).toBe('fairlead');
    expect(ownerOf(retired)).toBe('fairlead, retired');
    expect(ownerOf(heldTables(NODE))).toBe('other');
    expect(ownerOf(heldTables(NODE.replace(':KUBE-FORWARD', `${MARKER}\n:KUBE-FORWARD`)))).toBe(
      'other',
    );
  });

  test('go with a hand-over, but for what tracks connections and says whose it is', () => {
    const going = keepingTracked(ruleLeftovers(ours, 'fairlead'), 'one', 'KUBE-CLUSTER-IPS');
    const input = ruleRemoval(going);
    expect(input).not.toMatch(/^(?::|-X )KUBE-(?:FORWARD|CLUSTER-IPS)/m);
    expect(input).toMatch(/^-X KUBE-SERVICES$/m);
    expect(input.split('*').map((table) => table.split('\n')[0])).toEqual([
      '',
      // What refuses addresses of Services, as long as nat translates packets to them.
      'filter',
      'nat',
      'mangle',
      'filter',
    ]);
    expect(ruleRemoval(ruleLeftovers(retired, 'fairlead'))).toMatch(/-X KUBE-CLUSTER-IPS/);
    expect(ruleLeftovers(heldTables(NODE), 'fairlead').tables).toEqual([]);
  });

  test('are no leftovers of kube-proxy, not even those that are kept', () => {
    for (const held of [ours, retired]) {
      expect(ruleLeftovers(held)).toEqual({ tables: [], kept: [], isFairleads: true });
    }
  });
});
