// SPDX-License-Identifier: Apache-2.0
// When the rules of another proxy serve what fairlead serves, and what is said of them.
import { expect, test } from 'vitest';
import {
  type Judgement,
  judge,
  judgementText,
  type OtherRules,
  ownFrontends,
} from '../../../../../src/engines/kube-proxy/serving/judge.ts';
import type { FrontendView, PortId } from '../../../../../src/engines/snapshot.ts';
import type { Family } from '../../../../../src/model/types.ts';

const portOf = (name: string, family: Family): PortId => ({
  ...{ namespace: 'default', name, portName: 'main', protocol: 'TCP', family },
});
const view = (
  name: string,
  address: string | undefined,
  backends: readonly string[] = [],
): FrontendView => {
  const family: Family = address?.includes(':') ? 'IPv6' : 'IPv4';
  return {
    dataplane: 'bpf',
    id: { family, address, port: 80, protocol: 'TCP' },
    port: portOf(name, family),
    internal: backends,
    external: [],
    internalEmpty: 'reject',
    externalEmpty: 'reject',
    affinitySeconds: 0,
  };
};
const own = ownFrontends({
  frontends: [
    view('web', '10.96.0.10', ['10.1.1.1:8080', '10.1.1.2:8080']),
    view('none', '10.96.0.11'),
    view('web', undefined, ['10.1.1.1:8080']),
  ],
});
const WEB = '10.96.0.10:80/TCP';
const NONE = '10.96.0.11:80/TCP';
const rules = (
  frontends: Readonly<Record<string, readonly string[]>>,
  where = 'iptables-nft',
  family: Family = 'IPv4',
): OtherRules => ({ where, family, frontends: new Map(Object.entries(frontends)) });

const ALL = { [WEB]: ['10.1.1.1:8080'], [NONE]: [] };
const STALE = { [WEB]: ['10.1.1.1:8080', '10.1.1.77:8080'], [NONE]: [] };

const CASES: readonly {
  readonly what: string;
  readonly others: readonly OtherRules[];
  readonly synced?: readonly Family[];
  readonly isServed: boolean;
  readonly text: string;
}[] = [
  {
    what: 'nobody has rules',
    others: [rules({}, 'nftables')],
    isServed: false,
    text: 'IPv4: no other proxy has rules for 2 addresses of Services',
  },
  {
    what: 'kube-proxy of another network namespace has synced',
    others: [rules({ '10.97.0.1:80/TCP': [] })],
    synced: ['IPv4'],
    isServed: false,
    text: `IPv4: iptables-nft lacks 2 of 2 addresses (default/web ${WEB}, default/none ${NONE})`,
  },
  {
    what: 'all, with some of the backends',
    others: [rules(ALL)],
    isServed: true,
    text: 'IPv4: iptables-nft serves 2 addresses',
  },
  {
    what: 'rules that were left, before a Service came',
    others: [rules({ [WEB]: ['10.1.1.1:8080'] })],
    isServed: false,
    text: `IPv4: iptables-nft lacks 1 of 2 addresses (default/none ${NONE})`,
  },
  {
    what: 'rules that were left name an endpoint that is gone',
    others: [rules(STALE)],
    isServed: false,
    text: `IPv4: iptables-nft has other endpoints for 1 (default/web ${WEB})`,
  },
  {
    what: 'rules that were left have no endpoint yet',
    others: [rules({ [WEB]: [], [NONE]: [] })],
    isServed: false,
    text: `IPv4: iptables-nft has other endpoints for 1 (default/web ${WEB})`,
  },
  {
    what: 'another kind of rules beside those that were left',
    others: [rules(STALE), rules(ALL, 'nftables')],
    isServed: true,
    text: 'IPv4: nftables serves 2 addresses',
  },
  {
    what: 'kube-proxy knows newer endpoints than the agent did, and a Service less',
    others: [rules({ [WEB]: ['10.1.1.77:8080'] })],
    synced: ['IPv4'],
    isServed: true,
    text: `IPv4: kube-proxy has synced since it started; iptables-nft lacks 1 of 2 addresses (default/none ${NONE}), and has other endpoints for 1 (default/web ${WEB})`,
  },
  {
    what: 'the other family has synced',
    others: [rules(STALE)],
    synced: ['IPv6'],
    isServed: false,
    text: `IPv4: iptables-nft has other endpoints for 1 (default/web ${WEB})`,
  },
];

const only = (judgements: readonly Judgement[]): Judgement => {
  expect(judgements).toHaveLength(1);
  return judgements[0]!;
};

test.each(CASES)('$what', ({ others, synced = [], isServed, text }) => {
  const judgement = only(judge(own, others, new Set(synced)));
  expect({ isServed: judgement.isServed, text: judgementText(judgement) }).toEqual({
    isServed,
    text,
  });
});

test('each family is judged: a kube-proxy of one family does not serve the other', () => {
  const [six] = ownFrontends({
    frontends: [view('web', 'fd00:96::a', ['[fd00:1::1]:8080'])],
  });
  const judgements = judge([...own, six!], [rules(ALL)], new Set(['IPv4', 'IPv6']));
  expect(judgements.map(({ family, isServed }) => [family, isServed])).toEqual([
    ['IPv4', true],
    ['IPv6', false],
  ]);
});

test('without a Service there is nothing to wait for', () => {
  expect(judge([], [], new Set())).toEqual([]);
});
