// SPDX-License-Identifier: Apache-2.0
// At which addresses NodePorts answer, and are refused without endpoints.
import { describe, expect, it } from 'vitest';
import {
  atNodePortAddresses,
  type NodePortAddresses,
  nodePortAddresses,
  nodePortJumps,
} from '../../../../../src/engines/iptables/rows/node-ports.ts';
import { printRule } from '../../../../../src/engines/iptables/rules/print.ts';
import type { Rule } from '../../../../../src/engines/iptables/rules/types.ts';
import type { Family } from '../../../../../src/model/types.ts';

const addresses = (
  family: Family,
  accepted: 'all' | readonly string[],
  hasLocalhostNodePorts = true,
): NodePortAddresses =>
  nodePortAddresses(
    { nodePortAddresses: { IPv4: 'all', IPv6: 'all', [family]: accepted } },
    { hasLocalhostNodePorts },
    family,
  );

/** Without the comment, which is always the same. */
const lines = (rules: readonly Rule[], family: Family): readonly string[] =>
  rules.map(({ comment: _, ...rule }) => printRule(rule, family));

const FROM_HERE = '-m addrtype --src-type LOCAL -j KUBE-NODEPORTS';
const AT_NODE = '-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS';

interface Row {
  readonly name: string;
  readonly at: NodePortAddresses;
  readonly jumps: readonly string[];
}

const JUMPS: readonly Row[] = [
  {
    name: 'all, and on loopback addresses for processes of the node',
    at: addresses('IPv4', 'all'),
    jumps: [`-d 127.0.0.0/8 ${FROM_HERE}`, `! -d 127.0.0.0/8 ${AT_NODE}`],
  },
  {
    name: 'all but loopback addresses',
    at: addresses('IPv4', 'all', false),
    jumps: [`! -d 127.0.0.0/8 ${AT_NODE}`],
  },
  {
    name: 'never on ::1',
    at: addresses('IPv6', 'all'),
    jumps: [`! -d ::1/128 ${AT_NODE}`],
  },
  {
    name: 'those inside the prefixes',
    at: addresses('IPv4', ['192.0.2.0/24', '198.51.100.7/32']),
    jumps: [`-d 192.0.2.0/24 ${AT_NODE}`, `-d 198.51.100.7/32 ${AT_NODE}`],
  },
  {
    name: 'a part of the loopback addresses',
    at: addresses('IPv4', ['127.0.0.1/32', '192.0.2.0/24']),
    jumps: [`-d 127.0.0.1/32 ${FROM_HERE}`, `-d 192.0.2.0/24 ${AT_NODE}`],
  },
  {
    name: 'no loopback address although a prefix names one',
    at: addresses('IPv4', ['127.0.0.0/8', '192.0.2.0/24'], false),
    jumps: [`-d 192.0.2.0/24 ${AT_NODE}`],
  },
  {
    name: 'a prefix around the loopback addresses',
    at: addresses('IPv4', ['0.0.0.0/1']),
    jumps: [`-d 127.0.0.0/8 ${FROM_HERE}`, '-d 127.0.0.0/8 -j RETURN', `-d 0.0.0.0/1 ${AT_NODE}`],
  },
  {
    name: 'a prefix around ::1',
    at: addresses('IPv6', ['::/1']),
    jumps: ['-d ::1/128 -j RETURN', `-d ::/1 ${AT_NODE}`],
  },
  { name: 'none', at: addresses('IPv4', []), jumps: [] },
];

describe('NodePorts answer at', () => {
  it.each(JUMPS)('$name', ({ at, jumps }) => {
    expect(lines(nodePortJumps(at), at.family)).toEqual(jumps);
  });
});

const VIP: Rule = {
  destination: { prefix: '203.0.113.10/32' },
  protocol: 'TCP',
  destinationPort: 80,
  target: { kind: 'reject' },
};
const NODE_PORT: Rule = {
  isDestinationLocal: true,
  protocol: 'TCP',
  destinationPort: 30_080,
  target: { kind: 'reject' },
};

const at = (where: NodePortAddresses, rules: readonly Rule[]): readonly string[] =>
  lines(atNodePortAddresses(rules, where), where.family).map((line) => line.split(' -p ')[0] ?? '');

describe('a NodePort without endpoints is refused', () => {
  it('at every address of the node, as in kube-proxy', () => {
    expect(atNodePortAddresses([VIP, NODE_PORT], addresses('IPv4', 'all'))).toEqual([
      VIP,
      NODE_PORT,
    ]);
  });

  it('not where another process listens on the same number: outside the prefixes', () => {
    const where = addresses('IPv4', ['192.0.2.0/24', '198.51.100.7/32']);
    expect(at(where, [VIP, NODE_PORT])).toEqual([
      '-d 203.0.113.10/32',
      '-d 192.0.2.0/24',
      '-d 198.51.100.7/32',
    ]);
  });

  it('not on loopback addresses, if NodePorts do not answer there', () => {
    expect(at(addresses('IPv4', 'all', false), [NODE_PORT])[0]).toBe('-d 127.0.0.0/8 -j RETURN');
    expect(at(addresses('IPv6', 'all'), [NODE_PORT])[0]).toBe('-d ::1/128 -j RETURN');
    expect(at(addresses('IPv6', ['::/1']), [NODE_PORT])[0]).toBe('-d ::1/128 -j RETURN');
  });

  it('and other frontends need no such rule', () => {
    expect(atNodePortAddresses([VIP], addresses('IPv6', 'all'))).toEqual([VIP]);
  });
});
