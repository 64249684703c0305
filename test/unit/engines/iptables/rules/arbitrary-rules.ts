// SPDX-License-Identifier: Apache-2.0
// Any rule that types.ts can say and print.ts prints.
import fc from 'fast-check';
import type { Rule, Target } from '../../../../../src/engines/iptables/rules/types.ts';
import type { Family } from '../../../../../src/model/types.ts';
import { some } from '../../../../support/random.ts';

const PREFIXES: Readonly<Record<Family, readonly string[]>> = {
  IPv4: ['10.96.0.10/32', '10.1.0.0/16', '127.0.0.0/8'],
  IPv6: ['fd00:96::10/128', '2001:db8:1::/48', '::1/128'],
};
const BACKENDS: Readonly<Record<Family, readonly string[]>> = {
  IPv4: ['10.1.1.5:8080', '192.0.2.11'],
  IPv6: ['[fd00::5]:8080', 'fd00::5'],
};
const OTHERS = [
  '-o eth1',
  '! -p icmp -m limit --limit 5/min',
  '-m set ! --match-set x src',
  '-m physdev --physdev-in "a b"',
  '-g KUBE-SERVICES',
] as const;

const negated = <T extends object>(value: fc.Arbitrary<T>): fc.Arbitrary<T & { not?: true }> =>
  fc.tuple(value, fc.boolean()).map(([one, isNot]) => (isNot ? { ...one, not: true } : one));

const bits = fc.nat({ max: 0xffffffff });
const name = some('KUBE-SERVICES', 'KUBE-SEP-AAAAAAAAAAAAAAAA', 'ACCEPT', 'x');
/** Everything that a line may hold; print.ts cuts what is longer than a comment may be. */
const text = fc.oneof(
  fc.string({ maxLength: 60 }),
  some('-j', '--comment', 'default/web:http cluster IP', '', '"', '\\', "'", 'é', '!'),
);

const target = (family: Family): fc.Arbitrary<Target> =>
  fc.oneof(
    name.map((chain): Target => ({ kind: 'jump', chain })),
    fc.constant<Target>({ kind: 'reject' }),
    fc.constantFrom(...BACKENDS[family]).map((to): Target => ({ kind: 'dnat', to })),
    fc.boolean().map((isRandomFully): Target => ({ kind: 'masquerade', isRandomFully })),
    fc.record({ kind: fc.constant('set-mark' as const), value: bits, mask: bits }),
  );

const action = fc.oneof(
  fc.record({ kind: fc.constant('check' as const), seconds: fc.integer({ min: 1, max: 86_400 }) }),
  fc.constant({ kind: 'set' as const }),
);

const states = fc.subarray(['INVALID', 'NEW', 'RELATED', 'ESTABLISHED', 'DNAT'] as const, {
  minLength: 1,
});

const isTrue = fc.constant(true as const);

export const anyRule = (family: Family): fc.Arbitrary<Rule> => {
  const prefix = negated(fc.record({ prefix: fc.constantFrom(...PREFIXES[family]) }));
  const rest = fc.record(
    {
      source: prefix,
      destination: prefix,
      inInterface: negated(fc.record({ name: some('eth0', 'veth+', 'lo') })),
      comment: text,
      states: negated(fc.record({ any: states })),
      isSourceLocal: isTrue,
      isDestinationLocal: isTrue,
      mark: negated(fc.record({ value: bits, mask: bits })),
      probability: fc.integer({ min: 1, max: 2 ** 31 - 1 }).map((part) => part / 2 ** 31),
      recent: fc.record({ list: name, action }),
      accounting: some('ct_state_invalid_dropped_pkts'),
      other: some(...OTHERS),
      target: target(family),
    },
    { requiredKeys: [] },
  );
  const ports = fc.record(
    {
      protocol: some('TCP', 'UDP', 'SCTP'),
      destinationPort: fc.integer({ min: 1, max: 65_535 }),
    },
    { requiredKeys: ['protocol'] },
  );
  // `other` may name a protocol of its own.
  return fc
    .tuple(rest, fc.option(ports, { nil: undefined }))
    .map(([rule, match]) => (rule.other?.includes('-p ') ? rule : { ...rule, ...match }));
};
