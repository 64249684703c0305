// SPDX-License-Identifier: Apache-2.0
// The rules that kube-proxy writes for every story against those that are rendered for it: the same chains, rules and
// comments, but for known differences. FAIRLEAD_CASES=1,13 plays only these.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { render } from '../../../src/engines/iptables/rows/render.ts';
import type { RenderSettings } from '../../../src/engines/iptables/rows/settings.ts';
import { endpointChain, serviceChains } from '../../../src/engines/iptables/rules/names.ts';
import { FAMILIES, type Family, type ObjectChange } from '../../../src/model/types.ts';
import type { Plan, PlanSettings } from '../../../src/plan/types.ts';
import { run } from '../../../src/sys/exec.ts';
import { insideNamespace } from '../../../src/sys/netns.ts';
import { CLUSTER, fixture, named, type Story } from '../../conformance/story.ts';
import { drawn, storyOf } from '../../support/fixture/histories.ts';
import type { Stage } from '../../support/fixture/stage.ts';
import { playable } from '../../support/fixture/stories/story-table.ts';
import { useStage } from '../../support/fixture/tests.ts';
import { compareRules, DIFFERENCES } from '../../support/iptables/kube-proxy-differences.ts';
import { printRuleset } from '../../support/iptables/print-ruleset.ts';
import { chainsOf, type SavedChains } from '../../support/iptables/saved.ts';
import { DEFAULTS } from '../../support/iptables/story-rulesets.ts';
import { createPlanner } from '../../support/plan/planner.ts';
import { repeatable } from '../../support/random.ts';
import { isMissing, oracle } from './oracle.ts';

/** kube-proxy's answer is not always the same (differences.yaml). */
const SKIPPED: readonly Story['case'][] = ['conflict', 'slice-moves'];

const TOOL: Readonly<Record<Family, string>> = {
  IPv4: 'iptables-legacy-save',
  IPv6: 'ip6tables-legacy-save',
};

/** By which the stage knows that kube-proxy has synced. */
const SENTINEL = {
  namespace: 'default',
  name: 'sentinel',
  portName: 'turn',
  protocol: 'TCP',
} as const;

const SENTINEL_CHAINS = new Set([
  serviceChains(SENTINEL).cluster,
  ...['10.1.1.5', '10.1.1.6', '2001:db8:1:1::5', '2001:db8:1:1::6'].map((address) =>
    endpointChain(SENTINEL, { address, port: 8080 }),
  ),
]);

/** Chains of Kubernetes and the jumps to them, without what the fixture has besides. */
const relevant = (chains: SavedChains): SavedChains =>
  new Map(
    [...chains]
      .filter(([name]) => !SENTINEL_CHAINS.has(name.split(' ')[1] ?? ''))
      .map(([name, rules]): [string, readonly string[]] => [
        name,
        rules.filter(
          (rule) => !rule.includes('default/sentinel') && / (-A|-j) KUBE-/.test(` ${rule}`),
        ),
      ])
      .filter(([name, rules]) => name.includes(' KUBE-') || rules.length > 0),
  );

async function held(stage: Stage, node: string, family: Family): Promise<SavedChains> {
  const { namespace } = stage.cluster.tools(node);
  const [program = '', ...args] = insideNamespace(namespace, [TOOL[family]]);
  const { code, stdout, stderr } = await run(program, args);
  if (code !== 0) throw new Error(stderr);
  return relevant(chainsOf(stdout));
}

/** kube-proxy counts packets where the kernel can. */
const COUNTING: RenderSettings = {
  ...DEFAULTS,
  accounting: ['ct_state_invalid_dropped_pkts', 'localhost_nps_accepted_pkts'],
};

const isCounting = (chains: SavedChains): boolean =>
  [...chains.values()].flat().some((rule) => rule.includes('--nfacct-name'));

async function expectEqual(stage: Stage, story: Story, plan: Plan): Promise<void> {
  for (const family of FAMILIES) {
    const theirs = await held(stage, story.settings.nodeName, family);
    const rulesets = render(plan, isCounting(theirs) ? COUNTING : DEFAULTS);
    const ruleset = rulesets.find((one) => one.family === family)!;
    const ours = relevant(chainsOf(printRuleset(ruleset)));
    const { unknown, known } = compareRules(story.case, ours, theirs);
    for (const name of known) seen.add(name);
    expect(unknown, family).toEqual([]);
  }
}

/** Names of differences. */
const seen = new Set<string>();

const own = (
  name: Story['case'],
  changes: readonly ObjectChange[],
  settings: Partial<PlanSettings> = {},
): Story => ({
  name: String(name),
  case: name,
  settings: { ...fixture.settings, ...settings },
  steps: [CLUSTER, { changes }],
});

const put = (use: string, patch: Record<string, unknown>): ObjectChange => ({
  type: 'put',
  ...named({ use, patch }),
});

const PORTS = [
  { name: 'http', port: 80, protocol: 'TCP', nodePort: 30_080 },
  { name: 'dns', port: 53, protocol: 'UDP', nodePort: 30_053 },
  { name: 'diameter', port: 3868, protocol: 'SCTP', nodePort: 30_868 },
];

/** What a Service can have, all of it at once: several ports, both families, affinity, ranges, health checks. */
const everything = [
  put('dual', {
    spec: {
      type: 'LoadBalancer',
      ports: PORTS,
      externalIPs: ['203.0.113.20', '203.0.113.21'],
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32_000,
      loadBalancerSourceRanges: ['192.0.2.0/24', '198.51.100.0/24', '2001:db8::/48'],
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
    },
    status: {
      loadBalancer: {
        ingress: [{ ip: '203.0.113.10' }, { ip: '203.0.113.11' }, { ip: '2001:db8:cb00::10' }],
      },
    },
  }),
  ...['ab', 'ab6'].map((slice) =>
    put(slice, { ports: PORTS.map(({ name, protocol }) => ({ name, protocol, port: 8080 })) }),
  ),
];

const refused = put('dual', { spec: { type: 'NodePort', ports: PORTS } });

const stories = [
  ...playable().filter(({ case: name }) => !SKIPPED.includes(name)),
  own('everything', everything),
  own('everything on a node without endpoints', everything, { nodeName: 'n3' }),
  own('refused-node-port', [refused]),
  own('refused-node-port', [refused], { nodePortAddresses: ['192.0.2.0/24'] }),
];

const STATES = Number(process.env['FAIRLEAD_HISTORIES'] ?? 20);

/** Each state replaces the one before it. */
async function expectAllEqual(stage: Stage, { settings, steps, ...story }: Story): Promise<void> {
  const [cluster, first, ...later] = steps;
  const planner = createPlanner(settings);
  const objects = [...cluster!.changes, ...first!.changes];
  await stage.reset(objects, settings);
  await expectEqual(stage, { ...story, settings, steps }, planner.apply(objects).plan);
  for (const { changes } of later) {
    await stage.change(changes);
    await expectEqual(stage, { ...story, settings, steps }, planner.apply(changes).plan);
  }
}

describe.skipIf(isMissing)('iptables', () => {
  const stage = useStage({ network: 'routed', mode: 'iptables', start: oracle('iptables') });
  test.for(stories)('$name', (story) => expectAllEqual(stage(), story));

  test(`${STATES} random Services`, { timeout: STATES * 30_000 }, async () => {
    const isEqual = fc.asyncProperty(drawn, (state) => expectAllEqual(stage(), storyOf(state)));
    await fc.assert(isEqual, repeatable(STATES));
  });

  test.skipIf(process.env['FAIRLEAD_CASES'] !== undefined)('each known difference is one', () => {
    expect([...seen].sort()).toEqual([...new Set(DIFFERENCES.map(({ name }) => name))].sort());
  });
});
