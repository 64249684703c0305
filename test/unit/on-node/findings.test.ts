// SPDX-License-Identifier: Apache-2.0
// Facts of a node -> findings: a table for each topic, and readers that fail.
import { describe, expect, test } from 'vitest';
import type {
  HookPrograms,
  MarkTarget,
  NodeFacts,
  OwnFacts,
  PolicyRule,
} from '../../../src/on-node/facts.ts';
import type { Topic } from '../../../src/on-node/finding.ts';
import { findingsOf } from '../../../src/on-node/findings.ts';

const NOTHING: NodeFacts = {
  rules: { value: [] },
  markTargets: { value: [] },
  cni: { value: { folder: '/cni', files: [{ file: '10-b.conf', plugins: ['bridge'] }] } },
  reversePath: { value: [] },
  programs: { value: [] },
  cgroupPrograms: { value: [] },
  addresses: { value: [] },
};
const OWN: OwnFacts = {
  packets: 'bpf',
  markBit: undefined,
  sockets: 'auto',
  uplinks: ['eth0'],
  clusterIps: new Map([['10.96.0.10', 'kube-system/kube-dns']]),
  listenedTo: new Map(),
};
const ofTopic = (topic: Topic, facts: Partial<NodeFacts>, own: Partial<OwnFacts> = {}) =>
  findingsOf({ ...NOTHING, ...facts }, { ...OWN, ...own }).filter((one) => one.topic === topic);
/** What is found; what breaks Services with a `!`. */
const found = (...asked: Parameters<typeof ofTopic>): readonly string[] =>
  ofTopic(...asked).map(({ what, breaksServices }) => `${breaksServices ? '!' : ''}${what}`);
const consequences = (...asked: Parameters<typeof ofTopic>): readonly string[] =>
  ofTopic(...asked).map(({ consequence }) => consequence);

const POD_RULE = { family: 'IPv4', priority: 1536, text: 'from 10.1.1.5 lookup 2' } as const;
const marked = (value: number, mask: number): PolicyRule => ({
  ...{ family: 'IPv4', priority: 100, text: 'from all fwmark M lookup 3' },
  mark: { value, mask },
});
const target = (value: number, mask: number, isOfPackets = true): MarkTarget => ({
  ...{ family: 'ip', table: 'mangle', chain: 'PREROUTING', target: 'MARK' },
  ...{ value, mask, isOfPackets },
});

type MarkRow = readonly [
  what: string,
  rules: readonly PolicyRule[],
  targets: readonly MarkTarget[],
  markBit: number | undefined,
  breaks: boolean,
];

test('a node with nothing but its pods says what makes their network, and no more', () => {
  expect(findingsOf(NOTHING, OWN).map(({ topic, what }) => [topic, what])).toEqual([
    ['cni', '/cni/10-b.conf: bridge'],
  ]);
});

test('a reader that fails is a finding with its reason, and the others go on', () => {
  const unread = { unread: 'ip rule: EPERM' };
  expect(found('policy-routing', { rules: unread })).toEqual(['could not tell: ip rule: EPERM']);
  expect(found('marks', { rules: unread, markTargets: { value: [target(1, 1)] } })).toEqual([
    'MARK 0x1/0x1 in ip mangle PREROUTING',
    'could not tell: ip rule: EPERM',
  ]);
  const mine = { hook: 'XDP', on: 'eth0', programs: [{ id: 7, name: 'mine' }] };
  expect(found('other-programs', { programs: { value: [mine] }, cgroupPrograms: unread })).toEqual([
    'XDP of eth0: mine runs without ours',
    'could not tell: ip rule: EPERM',
  ]);
  expect(found('cni', { rules: unread })).toHaveLength(1);
  for (const topic of ['cni', 'mesh'] as const)
    expect(found(topic, { cni: unread })).toEqual(['could not tell: ip rule: EPERM']);
});

describe('policy routing', () => {
  test('one finding for each family, with the first rules', () => {
    const many = Array.from({ length: 6 }, (_, at) => ({ ...POD_RULE, priority: at }));
    const six = { family: 'IPv6', priority: 7, text: 'from all lookup 9' } as const;
    expect(found('policy-routing', { rules: { value: [...many, six] } })).toEqual([
      `IPv4: ip rule has ${[0, 1, 2, 3].map((at) => `${at}: ${POD_RULE.text}`).join(', ')}, and 2 more`,
      'IPv6: ip rule has 7: from all lookup 9',
    ]);
  });

  test('what it does depends on who serves packets', () => {
    const facts = { rules: { value: [POD_RULE] } };
    expect(consequences('policy-routing', facts)[0]).toContain('by eBPF an answer leaves by');
    expect(consequences('policy-routing', facts, { packets: 'iptables' })[0]).toContain(
      'may leave by another device',
    );
  });
});

test.each<MarkRow>([
  ['a rule for another bit', [marked(0x80, 0x80)], [], 14, false],
  ['a rule for our bit', [marked(0x4000, 0x4000)], [], 14, true],
  ['a rule for our bit among others', [marked(0, 0xff00)], [], 14, true],
  ['a rule for a whole mark of its own', [marked(0xca6c, 0xffffffff)], [], 14, true],
  ['a rule for a whole mark without our bit', [marked(0x1, 0xffffffff)], [], 14, false],
  ['our bit where no rules are written', [marked(0x4000, 0x4000)], [], undefined, false],
  ['our bit of another setting', [marked(0x4000, 0x4000)], [], 15, false],
  ['a target that sets our bit', [], [target(0x4000, 0x4000)], 14, true],
  ['a target that sets our bit of connections', [], [target(0x4000, 0x4000, false)], 14, false],
  ['a target that sets the highest bit', [], [target(0x80000000, 0x80000000)], 31, true],
])('marks: %s', (_, rules, targets, markBit, breaks) => {
  const facts = { rules: { value: rules }, markTargets: { value: targets } };
  const [first = ''] = found('marks', facts, { markBit });
  expect(first.startsWith('!')).toBe(breaks);
});

test.each([
  ['of our bit, by a probe', marked(0x4000, 0x4000), undefined, /^none by eBPF.*by rules, a clash/],
  ['of our bit, by eBPF', marked(0x4000, 0x4000), 'bpf', /^none for Services: eBPF/],
  ['of another bit, by a probe', marked(0x80, 0x80), undefined, /^none for Services: eBPF/],
] as const)('marks where no rules are known: %s', (_, rule, packets, text) => {
  const [first] = consequences('marks', { rules: { value: [rule] } }, { packets });
  expect(first).toMatch(text);
});

describe('the files of the CNI', () => {
  const files = (...value: { file: string; plugins: string[]; problem?: string }[]) => ({
    cni: { value: { folder: '/cni', files: value } },
  });

  test('a folder that is not visible, or empty, is said', () => {
    const cni = { value: { folder: '/cni', files: undefined } };
    expect(found('cni', { cni })).toEqual(['/cni is not visible to this process']);
    expect(found('cni', files())).toEqual(['/cni has no CNI configuration']);
  });

  test('the first good file counts, bad ones are named', () => {
    const bad = { file: '00.conf', plugins: [], problem: 'no JSON' };
    const good = { file: '10.conflist', plugins: ['cilium-cni', 'portmap'] };
    const all = files(bad, good, { file: '20.conf', plugins: ['bridge'] });
    expect(found('cni', all)).toEqual([
      '/cni/00.conf: no JSON',
      '/cni/10.conflist: cilium-cni, portmap',
    ]);
    expect(consequences('cni', all)[1]).toContain('may serve the same Services');
  });

  test('a mesh is among the plugins', () => {
    const facts = files({ file: '10.conflist', plugins: ['calico', 'istio-cni'] });
    expect(found('mesh', facts)).toEqual(['/cni/10.conflist: istio-cni (Istio)']);
  });

  test.each([
    ['auto', 'a pod whose rules redirect its connections is served as packets', false],
    ['host', 'every pod is served as packets', false],
    ['pods', '(SO_ORIGINAL_DST) gets an endpoint', true],
    ['none', 'rules of the node see a connection after the rules of the pod', false],
    [undefined, 'with --socket-scope auto, the default, ', false],
  ] as const)('what a mesh means with sockets %s', (sockets, consequence, isToDo) => {
    const facts = files({ file: '10.conflist', plugins: ['linkerd-cni'] });
    const [mesh] = findingsOf({ ...NOTHING, ...facts }, { ...OWN, sockets }).slice(-1);
    expect(mesh?.consequence).toContain(consequence);
    expect(mesh?.advice?.includes('`--socket-scope host`') ?? false).toBe(isToDo);
  });
});

test('a ClusterIP that is an address of the node, and what mode ipvs has left', () => {
  const on = (device: string, address = '10.96.0.10') => ({ device, address });
  const facts = { addresses: { value: [on('nodelocaldns'), on('eth0', '192.0.2.1')] } };
  expect(found('dns-cache', facts)).toEqual([
    'nodelocaldns has 10.96.0.10, the ClusterIP of kube-system/kube-dns',
  ]);
  expect(found('dns-cache', { addresses: { value: [on('kube-ipvs0')] } })).toEqual([
    'kube-ipvs0 has 10.96.0.10',
  ]);
});

test('a ClusterIP of the node: who gets its requests, and what to do if it is the Service', () => {
  const facts = { addresses: { value: [{ device: 'lo', address: '10.96.0.10' }] } };
  const cache = (listenedTo: OwnFacts['listenedTo']) =>
    findingsOf({ ...NOTHING, ...facts }, { ...OWN, listenedTo }).slice(-1)[0];
  const serving = cache(new Map([['10.96.0.10', ['53/UDP', '53/TCP']]]));
  expect(serving?.consequence).toContain(
    'a process of the node listens at 53/UDP, 53/TCP: it gets',
  );
  expect(serving).not.toHaveProperty('advice');
  const other = cache(new Map([['10.96.0.11', ['53/UDP']]]));
  expect(other?.consequence).toContain('no process of the node listens');
  expect(other?.advice).toContain('`ss -lnp src 10.96.0.10`');
});

test.each([
  ['one uplink', ['eth0'], [POD_RULE], 'strict', false],
  ['two uplinks without rules', ['eth0', 'eth1'], [], 'strict', false],
  ['two uplinks and rules', ['eth0', 'eth1'], [POD_RULE], 'strict', true],
  ['two uplinks and rules, but a bridge', ['eth1', 'eth2'], [POD_RULE], 'strict', false],
] as const)('rp_filter: %s', (_, uplinks, rules, mode, breaks) => {
  const facts = { rules: { value: rules }, reversePath: { value: [{ device: 'eth0', mode }] } };
  expect(found('rp-filter', facts, { uplinks })).toEqual([
    `${breaks ? '!' : ''}rp_filter is strict (1) on eth0`,
  ]);
});

test('rp_filter: loose or off is no finding, and a dot in a name is a slash for sysctl', () => {
  const filters = (['off', 'loose'] as const).map((mode) => ({ device: 'eth0', mode }));
  expect(found('rp-filter', { reversePath: { value: filters } })).toEqual([]);
  const vlan = { value: [{ device: 'eth0.7', mode: 'strict' as const }] };
  const facts = { ...NOTHING, rules: { value: [POD_RULE] }, reversePath: vlan };
  const [finding] = findingsOf(facts, { ...OWN, uplinks: ['eth0.7', 'eth1'] }).slice(-1);
  expect(finding?.advice).toBe('`sysctl -w net.ipv4.conf.eth0/7.rp_filter=2`');
});

describe('programs of others', () => {
  const program = (name: string, id = 7) => ({ id, name });
  const own = program('fl_ingress');
  const at = (hook: string, on: string, ...programs: HookPrograms['programs'][number][]) => ({
    ...{ hook, on, programs },
  });
  const programs = (...value: HookPrograms[]) => found('other-programs', { programs: { value } });

  test('none but ours: nothing', () => {
    expect(programs(at('tcx ingress', 'eth0', own))).toEqual([]);
  });

  test('before ours, after ours, or alone; the same on several devices is one', () => {
    expect(
      programs(
        at('tcx ingress', 'eth0', program('mine'), own, program('later')),
        at('tcx ingress', 'eth1', program('mine'), own),
        at('XDP', 'eth0', program('', 17)),
      ),
    ).toEqual([
      'tcx ingress of eth0, eth1: mine runs before ours',
      'tcx ingress of eth0: later runs after ours',
      'XDP of eth0: program 17 runs without ours',
    ]);
  });

  test('programs whose names take CAP_SYS_ADMIN are one line, and ours are none of it', () => {
    const nameless = { id: 17, name: undefined };
    const hooks = ['connect4', 'connect6'].map((hook) => at(hook, '/cgroup', nameless));
    const device = at('tcx ingress', 'eth0', own, nameless);
    const facts = { programs: { value: [device] }, cgroupPrograms: { value: hooks } };
    expect(found('other-programs', facts)).toEqual([
      'could not tell: programs at tcx ingress of eth0, connect4 of /cgroup, connect6 of /cgroup have names that take CAP_SYS_ADMIN',
    ]);
  });

  test('filters of clsact run after the programs of tcx', () => {
    const other = program('mine');
    expect(programs(at('clsact ingress', 'eth0', other), at('tcx ingress', 'eth0', own))).toEqual([
      'clsact ingress of eth0: mine runs after ours',
    ]);
    expect(programs(at('tcx ingress', 'eth0', other), at('clsact ingress', 'eth0', own))).toEqual([
      'tcx ingress of eth0: mine runs before ours',
    ]);
    expect(programs(at('clsact ingress', 'eth1', other), at('tcx ingress', 'eth0', own))).toEqual([
      'clsact ingress of eth1: mine runs without ours',
    ]);
  });

  test('Cilium before ours at ingress ends the chain', () => {
    const cilium = program('cil_from_netdev');
    expect(programs(at('tcx ingress', 'eth0', cilium, own))).toEqual([
      '!tcx ingress of eth0: cil_from_netdev (Cilium) runs before ours',
    ]);
    expect(programs(at('tcx egress', 'eth0', cilium, own))[0]).not.toContain('!');
    expect(programs(at('connect4', '/sys/fs/cgroup', program('cil_sock4_connect'), own))).toEqual([
      'connect4 of /sys/fs/cgroup: cil_sock4_connect (Cilium) runs before ours',
    ]);
  });
});
