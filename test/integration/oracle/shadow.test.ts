// SPDX-License-Identifier: Apache-2.0
// An agent with --shadow beside the real kube-proxy: it changes nothing on the node, finds no difference at rest, and tells a rule that
// somebody has planted until it is gone.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Report } from '../../../src/cli/view/status-text.ts';
import type { ShadowRecord } from '../../../src/instance/shadow/record.ts';
import { readRecord } from '../../../src/instance/shadow/record.ts';
import { run } from '../../../src/sys/exec.ts';
import { compiledPath, insideSandbox } from '../../../tools/lab/sandbox.ts';
import { flagsOf } from '../../support/fixture/proxies/proxy.ts';
import type { Stage } from '../../support/fixture/stage.ts';
import { playable } from '../../support/fixture/stories/story-table.ts';
import { useStage } from '../../support/fixture/tests.ts';
import { getInSandbox } from '../../support/http/get.ts';
import { evaluateAlerts, preparePromql } from '../../support/programs/promql.ts';
import { until } from '../../support/until.ts';
import { type Program, startProgram } from '../cluster/programs/program.ts';
import { isMissing, oracle, RULE_MODES } from './oracle.ts';

const NODE = 'n1';
/** A Service with a NodePort. */
const [STORY] = playable().filter((story) => story.case === 70);
/** What the DaemonSet gives it. */
const FEW = ['setpriv', '--bounding-set', '-all,+net_admin,+net_raw', '--inh-caps', '-all'];
const NONE = ['setpriv', '--bounding-set', '-all', '--inh-caps', '-all'];
/** It would repair what is planted. */
const SELDOM = { minSyncPeriod: '10ms', syncPeriod: '1h' };

type Mode = (typeof RULE_MODES)[number];
const PLANTED = { add: 'planted', remove: 'repaired' } as const;

/** Clients of the ClusterIP pass by, as far as this rule is concerned. */
const RULES: Readonly<Record<Mode, Readonly<Record<keyof typeof PLANTED, string>>>> = {
  iptables: {
    add: 'iptables-legacy -t nat -I KUBE-SERVICES -d 10.96.0.10 -p tcp --dport 80 -j RETURN',
    remove: 'iptables-legacy -t nat -D KUBE-SERVICES -d 10.96.0.10 -p tcp --dport 80 -j RETURN',
  },
  nftables: {
    add: 'nft insert rule ip kube-proxy services ip daddr 10.96.0.10 tcp dport 80 return',
    remove:
      'nft delete rule ip kube-proxy services handle $(nft -a list chain ip kube-proxy services | sed -n "s/.* return # handle //p")',
  },
};

const promql = await preparePromql();

describe.skipIf(isMissing).each(RULE_MODES)('%s', (mode) => {
  const fields = { iptables: SELDOM, nftables: SELDOM };
  const stage = useStage({ network: 'routed', mode, start: oracle(mode, fields), on: [NODE] });
  let before: State;
  let shadow: Program | undefined;
  beforeAll(async () => {
    const [cluster, first] = STORY!.steps;
    await stage().reset([...cluster!.changes, ...first!.changes], STORY!.settings);
    before = await stateOf(stage());
    shadow = startShadow(stage(), FEW);
  });
  afterAll(() => shadow?.stop());

  test('at rest every Service would be served alike', async () => {
    const { shadow: view, health } = await compared(stage(), shadow!);
    expect(view).toMatchObject({ differing: [], unread: [] });
    expect(view!.rules.map((name) => name.replace('-legacy', ''))).toEqual([
      `IPv4 ${mode}`,
      `IPv6 ${mode}`,
    ]);
    expect(health).toEqual({ state: 'in sync', reasons: [] });
    expect(await metricsOf(stage())).toMatchObject({
      fairlead_shadow_cannot_compare: 0,
      fairlead_shadow_differing_services: 0,
      'fairlead_shadow_differences{reason="unexplained"}': 0,
      fairlead_shadow_compared_services: view!.services,
      fairlead_shadow_unread_rules: 0,
      fairlead_shadow_last_comparison_timestamp_seconds: expect.any(Number),
      fairlead_shadow_last_comparison_duration_seconds: expect.any(Number),
    });
  });

  test('it changes nothing on the node but its own two listeners', async () => {
    const { listeners, ...others } = await stateOf(stage());
    const { listeners: earlier, ...unchanged } = before;
    expect(others).toEqual(unchanged);
    const more = listeners.filter((one) => !earlier.includes(one));
    expect(more.map((one) => one.replace(/.*:/, '')).sort()).toEqual(['10266', '10267']);
    expect(earlier.filter((one) => !listeners.includes(one))).toEqual([]);
  });

  test('a planted rule is told, and recorded, until it is gone', async () => {
    await inNode(stage(), RULES[mode].add);
    const found = await until(
      async () => {
        const report = await statusOf(stage());
        return report.shadow!.differing.length > 0 ? report : undefined;
      },
      { what: 'the planted rule is found' },
    );
    expect(found.shadow!.differing).toEqual([
      { service: 'default/web', what: expect.stringMatching(/10\.96\.0\.10:80\/TCP verdict/) },
    ]);
    expect(found.health).toMatchObject({
      state: 'degraded',
      reasons: ['1 Service would be served in another way'],
    });
    const moved = await metricsOf(stage());
    expect(moved['fairlead_shadow_differing_services']).toBe(1);
    expect(moved['fairlead_shadow_differences{reason="unexplained"}']).toBeGreaterThan(0);
    if (promql.isReady) {
      const states = { planted: [await metricsPage(stage())] };
      const fired = await evaluateAlerts(promql.program, states, Date.now());
      expect(fired['planted']).toMatchObject({ FairleadShadowDiffers: 600 });
    }
    await until(() => recordOf(stage())?.differing.length === 1, { what: 'it is recorded' });
    await refused(stage());

    await inNode(stage(), RULES[mode].remove);
    await until(async () => (await statusOf(stage())).shadow!.differing.length === 0, {
      what: 'nothing differs any more',
    });
    await until(() => recordOf(stage())?.differing.length === 0, { what: 'nor in the record' });
  });

  test('after its end the node is as before', async () => {
    await shadow!.stop();
    expect(await stateOf(stage())).toEqual(before);
  });

  test('without CAP_NET_ADMIN it says what it needs', async () => {
    const { code, stderr } = await runInNode(stage(), [...NONE, ...argvOf(stage())]);
    expect(code).toBe(5);
    expect(stderr).toContain('CAP_NET_ADMIN');
  });
});

const runDirOf = ({ cluster }: Stage): string => join(cluster.directory, 'shadow');

function argvOf(stage: Stage): string[] {
  const runDir = runDirOf(stage);
  mkdirSync(runDir, { recursive: true });
  return [
    ...[process.execPath, compiledPath('main.js'), 'run', '--shadow', '--shadow-wait', '300ms'],
    ...['--kubeconfig', stage.api.kubeconfig, '--hostname-override', NODE, '--run-dir', runDir],
    ...flagsOf(STORY!.settings),
  ];
}

function startShadow(stage: Stage, within: readonly string[]): Program {
  const argv = [...within, ...argvOf(stage)];
  return startProgram(stage.cluster.tools(NODE), 'fairlead --shadow', argv);
}

async function runInNode({ cluster }: Stage, argv: readonly string[]) {
  const [program = '', ...args] = insideSandbox(cluster.tools(NODE), argv);
  return run(program, args);
}

async function inNode(stage: Stage, line: string): Promise<string> {
  const { code, stdout, stderr } = await runInNode(stage, ['sh', '-c', line]);
  expect({ line, code, stderr }).toMatchObject({ code: 0 });
  return stdout;
}

async function statusOf(stage: Stage): Promise<Report> {
  const argv = [process.execPath, compiledPath('main.js'), 'status', '-o', 'json'];
  const { stdout } = await runInNode(stage, [...argv, '--run-dir', runDirOf(stage)]);
  return JSON.parse(stdout || '{}') as Report;
}

const compared = (stage: Stage, program: Program): Promise<Report> =>
  until(
    async () => {
      if (!program.isRunning()) throw new Error(program.tail());
      const report = await statusOf(stage);
      const { shadow } = report;
      return shadow?.comparedAt !== undefined && !shadow.isDue ? report : undefined;
    },
    { what: 'the plan and the rules are compared' },
  );

const recordOf = (stage: Stage): ShadowRecord | undefined => readRecord(runDirOf(stage));

/** As an agent that is to serve the node. */
async function refused(stage: Stage): Promise<void> {
  const argv = argvOf(stage).filter((flag) => flag !== '--shadow');
  const { code, stderr } = await runInNode(stage, [...argv, '--engine', mode(stage)]);
  expect({ code, stderr }).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^fairlead: 1 Service .*default\/web: .*--switch-anyway$/m),
  });
}

const mode = (stage: Stage): string => stage.mode;

const metricsPage = async ({ cluster }: Stage): Promise<string> =>
  (await getInSandbox(cluster.tools(NODE), 10_267, '/metrics')).body;

async function metricsOf(stage: Stage): Promise<Readonly<Record<string, number>>> {
  return Object.fromEntries(
    (await metricsPage(stage)).split('\n').flatMap((line) => {
      const [, name, value] = /^(fairlead_shadow_\S+) (\S+)$/.exec(line) ?? [];
      return name === undefined ? [] : [[name, Number(value)]];
    }),
  );
}

interface State {
  readonly rules: string;
  readonly sysctls: string;
  readonly tracked: string;
  readonly listeners: readonly string[];
  readonly devices: string;
}

/** What an agent may change on a node. */
async function stateOf(stage: Stage): Promise<State> {
  const tools = ['iptables-legacy-save', 'ip6tables-legacy-save', 'nft list ruleset'];
  const rules = await inNode(stage, tools.join('; '));
  const sockets = await inNode(stage, "ss -Hlntu | awk '{print $1, $5}'");
  return {
    rules: rules.replace(/^#.*$|\[\d+:\d+\]|counter packets \d+ bytes \d+/gm, ''),
    sysctls: await inNode(
      stage,
      "sysctl -a 2>/dev/null | grep '^net\\.' | grep -v conntrack_count",
    ),
    tracked: await inNode(stage, 'conntrack -L 2>/dev/null | grep -c dport=30080 || true'),
    listeners: sockets.trim().split('\n').sort(),
    devices: await inNode(stage, 'ip -o link | sed "s/ state .*//"; tc qdisc; ip -o address'),
  };
}
