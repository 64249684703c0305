// SPDX-License-Identifier: Apache-2.0
// What the stories do not tell of the rules: settings, order, large clusters, and that one change renders one Service.
import { describe, expect, it } from 'vitest';
import { createRenderer, render } from '../../../../../src/engines/iptables/rows/render.ts';
import type { RenderSettings } from '../../../../../src/engines/iptables/rows/settings.ts';
import type { Chain, Ruleset } from '../../../../../src/engines/iptables/rules/types.ts';
import type { ObjectChange } from '../../../../../src/model/types.ts';
import type { PlanSettings } from '../../../../../src/plan/types.ts';
import { printRuleset } from '../../../../support/iptables/print-ruleset.ts';
import { DEFAULTS } from '../../../../support/iptables/story-rulesets.ts';
import { createPlanner } from '../../../../support/plan/planner.ts';
import { ready, SETTINGS, service, slice } from '../../../plan/support.ts';

const web = (name: string, number: number, endpoints: number): readonly ObjectChange[] => [
  service(name, number, {
    type: 'NodePort',
    ports: [{ name: 'http', port: 80, nodePort: 30_000 + number }],
  }),
  slice(
    name,
    Array.from({ length: endpoints }, (_, index) => ready(`10.1.${number}.${index + 1}`)),
  ),
];

function linesOf(
  changes: readonly ObjectChange[],
  settings: Partial<RenderSettings> = {},
  plan: Partial<PlanSettings> = {},
): readonly string[] {
  const planner = createPlanner({ ...SETTINGS, ...plan });
  planner.apply(changes);
  const [ipv4] = render(planner.current(), { ...DEFAULTS, ...settings });
  return printRuleset(ipv4!).split('\n');
}

const matching = (lines: readonly string[], pattern: RegExp): readonly string[] =>
  lines.filter((line) => pattern.test(line));

describe('settings', () => {
  it('masquerade by the mark bit that is configured, 31 too', () => {
    expect(matching(linesOf([], { masqueradeBit: 31 }), /0x/)).toEqual([
      expect.stringContaining('--mark 0x80000000/0x80000000 -j ACCEPT'),
      expect.stringContaining('! --mark 0x80000000/0x80000000 -j RETURN'),
      '-A KUBE-POSTROUTING -j MARK --set-xmark 0x80000000/0x0',
      '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x80000000/0x80000000',
    ]);
  });

  it('leave out --random-fully, which iptables before 1.6.2 does not know', () => {
    expect(matching(linesOf([], { hasRandomFully: false }), /random/)).toEqual([]);
  });

  it('drop nothing INVALID where conntrack is liberal', () => {
    expect(matching(linesOf([]), /INVALID/)).toHaveLength(1);
    expect(matching(linesOf([], { isTcpLiberal: true }), /INVALID/)).toEqual([]);
  });

  it('name only those counters that exist', () => {
    const objects = web('web', 1, 1);
    expect(matching(linesOf(objects), /nfacct/)).toEqual([]);
    const accounting = ['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts'] as const;
    const counted = matching(linesOf(objects, { accounting }), /nfacct/);
    expect(counted).toEqual([
      '-A KUBE-FORWARD -m conntrack --ctstate INVALID -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts -j DROP',
      expect.stringMatching(
        /^-A KUBE-NODEPORTS -d 127.0.0.0\/8 -p tcp .* --dport 30001 .* {2}localhost_nps_accepted_pkts -j KUBE-EXT-/,
      ),
    ]);
    const without = { accounting, hasLocalhostNodePorts: false };
    expect(matching(linesOf(objects, without), /localhost_nps/)).toEqual([]);
  });

  it('have no martian guard where loopback addresses serve no NodePorts', () => {
    expect(matching(linesOf([]), /KUBE-FIREWALL/)).toHaveLength(4);
    expect(matching(linesOf([], { hasLocalhostNodePorts: false }), /KUBE-FIREWALL/)).toEqual([]);
  });
});

describe('pods', () => {
  const masquerading = (plan: Partial<PlanSettings>): readonly string[] =>
    matching(linesOf(web('web', 1, 1), {}, plan), /^-A KUBE-SVC-.* -j KUBE-MARK-MASQ/);

  it('are known by their addresses or devices', () => {
    expect(masquerading({})).toEqual([expect.stringContaining(' ! -s 10.1.0.0/16 ')]);
    const bridge = { detectLocalMode: 'BridgeInterface', podBridgeInterface: 'cbr0' } as const;
    expect(masquerading(bridge)).toEqual([expect.stringContaining(' ! -i cbr0 ')]);
    const prefix = { detectLocalMode: 'InterfaceNamePrefix', podInterfaceNamePrefix: 'v' } as const;
    expect(masquerading(prefix)).toEqual([expect.stringContaining(' ! -i v+ ')]);
  });

  it('are everybody with a cluster CIDR of all addresses, which no rule can negate', () => {
    expect(masquerading({ clusterCidrs: ['0.0.0.0/0'] })).toEqual([]);
  });
});

describe('refusal of a ClusterIP’s other ports', () => {
  const range = (cidrs: readonly string[]): ObjectChange => ({
    type: 'put',
    ref: { kind: 'ServiceCIDR', namespace: '', name: 'kubernetes' },
    object: {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'ServiceCIDR',
      metadata: { name: 'kubernetes' },
      spec: { cidrs },
    },
  });
  const jumps = (changes: readonly ObjectChange[]): readonly string[] =>
    matching(linesOf(changes), /^-A KUBE-SERVICES .*-j KUBE-CLUSTER-IPS/).map(
      (line) => line.split(' -m ')[0] ?? '',
    );

  const protocols = ['tcp', 'udp', 'sctp'];
  const anywhere = protocols.map((name) => `-A KUBE-SERVICES -p ${name}`);

  it('is looked for in the range of ClusterIPs only', () => {
    const inRange = protocols.map((name) => `-A KUBE-SERVICES -d 10.96.0.0/16 -p ${name}`);
    expect(jumps([range(['10.96.0.0/16', 'fd00:96::/112']), ...web('web', 1, 1)])).toEqual(inRange);
  });

  it('is looked for in the /16, or /108, of a ClusterIP in no known range', () => {
    const around = (ranges: readonly string[]): readonly string[] =>
      ranges.flatMap((to) => protocols.map((name) => `-A KUBE-SERVICES -d ${to} -p ${name}`));
    expect(jumps(web('web', 1, 1))).toEqual(around(['10.96.0.0/16']));
    const others = [range(['172.16.0.0/16']), ...web('a', 1, 1), ...web('b', 2, 1)];
    expect(jumps(others)).toEqual(around(['172.16.0.0/16', '10.96.0.0/16']));
  });

  it('is looked for everywhere if ClusterIPs are in many unknown ranges', () => {
    const cidrs = Array.from({ length: 8 }, (_, n) => `172.${n + 16}.0.0/16`);
    expect(jumps([range(cidrs)])).toHaveLength(8 * protocols.length);
    expect(jumps([range(cidrs), ...web('web', 1, 1)])).toEqual(anywhere);
  });

  it('has a jump without any ClusterIP, which tells these rules from kube-proxy’s', () => {
    expect(jumps([])).toEqual(anywhere);
  });

  it('comes after what the Service’s own ports without endpoints answer', () => {
    const local = service('web', 1, {
      internalTrafficPolicy: 'Local',
      ports: [
        { name: 'a', port: 80 },
        { name: 'b', port: 81 },
      ],
    });
    const remote = slice('web', [ready('10.1.2.1', 'n2')], {
      ports: [
        { name: 'a', port: 80 },
        { name: 'b', port: 81 },
      ],
    });
    const targets = matching(
      linesOf([local, remote]),
      /^-A KUBE-SERVICES .*-j (DROP|KUBE-CLUSTER)/,
    );
    expect(targets.map((line) => line.split(' ').at(-1))).toEqual([
      ...['DROP', 'DROP'],
      ...['KUBE-CLUSTER-IPS', 'KUBE-CLUSTER-IPS', 'KUBE-CLUSTER-IPS'],
    ]);
  });
});

describe('createRenderer', () => {
  const natChains = ([ipv4]: readonly Ruleset[]): ReadonlyMap<string, Chain> =>
    new Map(ipv4?.tables.find(({ name }) => name === 'nat')?.chains.map((one) => [one.name, one]));

  const prepare = () => {
    const planner = createPlanner(SETTINGS);
    const renderer = createRenderer(DEFAULTS);
    planner.apply([...web('b', 2, 2), ...web('a', 1, 2), ...web('c', 3, 0)]);
    return { planner, renderer, rulesets: renderer.render(planner.current()) };
  };

  it('orders Services by name, in whatever order they came', () => {
    const { rulesets } = prepare();
    const services = natChains(rulesets).get('KUBE-SERVICES')!.rules.slice(0, 2);
    expect(services.map(({ comment }) => comment)).toEqual([
      'default/a:http cluster IP',
      'default/b:http cluster IP',
    ]);
  });

  it('keeps the chains and rules of Services that did not change', () => {
    const { planner, renderer, rulesets } = prepare();
    planner.apply([slice('a', [ready('10.1.1.1')])]);
    const before = natChains(rulesets);
    const after = natChains(renderer.render(planner.current()));
    const owners = (chain: Chain): string => JSON.stringify(chain.rules);
    const isOfService = (name: string): boolean => /^KUBE-(SVC|SEP|EXT)-/.test(name);
    const ofServices = [...after].filter(([name]) => isOfService(name));
    const kept = ofServices.filter(([name, chain]) => before.get(name) === chain);
    const renewed = ofServices.filter(([name, chain]) => before.get(name) !== chain);
    expect(kept.every(([, chain]) => owners(chain).includes('default/b'))).toBe(true);
    expect(kept).toHaveLength(4);
    expect(renewed.every(([, chain]) => owners(chain).includes('default/a'))).toBe(true);
    expect(renewed).toHaveLength(3);
    const rules = (chains: typeof after) => chains.get('KUBE-SERVICES')!.rules;
    expect(rules(after)[1]).toBe(rules(before)[1]);
  });

  it('gives what rendering from scratch gives', () => {
    const { planner, renderer } = prepare();
    planner.apply([slice('a', [ready('10.1.1.9')]), ...web('d', 4, 1)]);
    const texts = renderer.render(planner.current()).map(printRuleset);
    expect(texts).toEqual(render(planner.current(), DEFAULTS).map(printRuleset));
  });

  it('renders everything anew when what all chains depend on changes', () => {
    const planner = createPlanner({ ...SETTINGS, detectLocalMode: 'NodeCIDR' });
    const renderer = createRenderer(DEFAULTS);
    planner.apply(web('a', 1, 1));
    const before = natChains(renderer.render(planner.current()));
    const node = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n1' },
      spec: { podCIDRs: ['10.1.9.0/24'] },
    };
    const ref = { kind: 'Node', namespace: '', name: 'n1' } as const;
    planner.apply([{ type: 'put', ref, object: node }]);
    const after = natChains(renderer.render(planner.current()));
    const changed = [...after].filter(([name, chain]) => before.get(name) !== chain);
    expect(changed.map(([name]) => name)).toEqual(
      expect.arrayContaining([expect.stringMatching(/^KUBE-SVC-/)]),
    );
    expect(printRuleset(renderer.render(planner.current())[0]!)).toContain('! -s 10.1.9.0/24');
  });
});

describe('a large cluster', () => {
  const big = (endpoints: number): readonly ObjectChange[] =>
    Array.from({ length: Math.ceil(endpoints / 100) }, (_, index) =>
      web(`web-${index}`, index, Math.min(100, endpoints - index * 100)),
    ).flat();

  const isCommented = ([ipv4]: readonly Ruleset[]): boolean =>
    printRuleset(ipv4!).includes(' -> 10.1.');

  it('has no comments that name endpoints, from 1001 on', () => {
    const planner = createPlanner(SETTINGS);
    planner.apply(big(1000));
    expect(isCommented(render(planner.current(), DEFAULTS))).toBe(true);
    planner.apply(big(1001));
    const [ipv4] = render(planner.current(), DEFAULTS);
    const lines = printRuleset(ipv4!).split('\n');
    expect(matching(lines, /^-A KUBE-SEP-.*comment/)).toEqual([]);
    expect(matching(lines, /^-A KUBE-SVC-.* -> /)).toEqual([]);
    expect(matching(lines, /^-A KUBE-SERVICES .*cluster IP"/)).toHaveLength(11);
  });

  it('stays one until it has clearly fewer', () => {
    const planner = createPlanner(SETTINGS);
    const renderer = createRenderer(DEFAULTS);
    const isCommentedWith = (endpoints: number): boolean => {
      planner.apply(big(endpoints));
      return isCommented(renderer.render(planner.current()));
    };
    expect([1000, 1001, 1000, 1000].map(isCommentedWith)).toEqual([true, false, false, false]);
    for (const name of ['web-8', 'web-9', 'web-10']) planner.apply([slice(name, [])]);
    expect(isCommented(renderer.render(planner.current()))).toBe(true);
  });
});
