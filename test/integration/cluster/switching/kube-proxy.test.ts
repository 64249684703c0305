// SPDX-License-Identifier: Apache-2.0
// The real kube-proxy gives its place to each of fairlead's engines and gets it back, in the order of docs/install.md: shadow, compare,
// beside it, replace, remove what it has left, verify, way back. Clients in pods, of the node and outside go on: no new
// connection and no question fails.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Report } from '../../../../src/cli/view/status-text.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import { routeServices } from '../../../support/iptables/routed-node.ts';
import type { TestNode } from '../../../support/node.ts';
import {
  type Path,
  type SwitchReport,
  tableLine,
  trafficDuring,
  WORKERS,
} from '../../../support/switching/traffic.ts';
import { until, untilHolds } from '../../../support/until.ts';
import { type ClusterAgent, startClusterAgent } from '../agent/agent.ts';
import {
  type KubeProxy,
  type KubeProxyOptions,
  prepareKubeProxy,
  startKubeProxy,
} from '../kube-proxy/kube-proxy.ts';
import {
  NODE_ADDRESS,
  startVisitedNode,
  type VisitedNode,
  WEB_PODS,
} from '../kube-proxy/visited-node.ts';
import { removeAllRules } from '../leftovers/foreign.ts';
import { addService } from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';

const readiness = await prepareCluster();
const missing = readiness.isReady ? await prepareKubeProxy() : readiness.reason;

/** switching.test.ts has iptables-legacy. */
const MODES = {
  'iptables-nft': { mode: 'iptables', iptables: 'nft' },
  nftables: { mode: 'nftables' },
} as const satisfies Readonly<Record<string, KubeProxyOptions>>;
type Mode = keyof typeof MODES;
const ENGINES = ['bpf', 'iptables', 'nftables', 'userspace'] as const;
type Engine = (typeof ENGINES)[number];

const PAIRS = (Object.keys(MODES) as Mode[]).flatMap((mode) =>
  ENGINES.map((engine) => [mode, engine] as const),
);

/** How the rules of each are saved, a file for each command: to be compared when they are gone. */
const SAVES: Readonly<Record<Mode, readonly (readonly string[])[]>> = {
  'iptables-nft': [['iptables-nft-save'], ['ip6tables-nft-save']],
  nftables: [['nft', '-y', 'list', 'ruleset']],
};

/** As `compare` names the rules of fairlead's engines; the others have none. */
const OWN_RULES: Readonly<Partial<Record<Engine, string>>> = {
  iptables: 'fairlead-iptables',
  nftables: 'fairlead-nftables',
};

describe.skipIf(!readiness.isReady || missing !== undefined)('from and to kube-proxy', () => {
  let stage: VisitedNode;
  let node: TestNode;
  let self: Client;
  let paths: Readonly<Record<string, Path>>;
  let agent: ClusterAgent | undefined;
  let proxy: KubeProxy | undefined;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    stage = await startVisitedNode(readiness.binaries, ['web-1', 'web-2']);
    node = stage.node;
    await routeServices(node);
    self = await startClient(node.self);
    const { spec } = await addService(stage.plane.api, 'web', {
      type: 'NodePort',
      selector: WEB_PODS,
      ports: [
        { name: 'tcp', port: 80, targetPort: 8080 as never, protocol: 'TCP' },
        { name: 'udp', port: 53, targetPort: 5353 as never, protocol: 'UDP' },
      ],
    });
    const [tcp, udp] = spec?.ports ?? [];
    const at = (address = '', tcpPort = 0, udpPort = 0) => ({
      tcp: { protocol: 'TCP', address, port: tcpPort } as const,
      udp: { protocol: 'UDP', address, port: udpPort } as const,
    });
    const within = at(spec?.clusterIP, 80, 53);
    paths = {
      pod: { client: node.client(), ...within },
      node: { client: self, ...within },
      outside: {
        client: stage.outside.client(),
        ...at(NODE_ADDRESS, tcp?.nodePort, udp?.nodePort),
      },
    };
  });
  afterEach(async () => {
    await stop();
    await proxy?.stop();
    await cleanup(...ownPaths(node.instance));
    await removeAllRules(node.self);
  });
  afterAll(async () => {
    await self?.stop();
    await stage?.remove();
  });

  const start = async (...flags: readonly string[]): Promise<void> => {
    agent = await startClusterAgent(stage.plane, node, { identity: 'proxy', flags });
  };
  const stop = async (): Promise<void> => {
    await agent?.stop();
    agent = undefined;
  };
  const startProxy = async (mode: Mode): Promise<void> => {
    proxy = await startKubeProxy(stage.plane, stage.nodes.topology.nodes[0]!, MODES[mode]);
  };
  const cleanup = async (...flags: readonly string[]): Promise<void> => {
    const { stderr, code } = await runCommand(node.instance, ['cleanup', ...flags]);
    expect([code, stderr]).toEqual([0, '']);
  };
  /** Chains of iptables are the engine's own by then. */
  const removeKubeProxys = async (mode: Mode, engine: Engine): Promise<void> => {
    const done = await runCommand(node.instance, ['cleanup', '--kube-proxy']);
    const isTaken = mode === 'iptables-nft' && engine === 'iptables';
    expect(done).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(isTaken ? /^kube-proxy has left nothing/ : /^removed /),
      stderr: engine === 'iptables' ? expect.stringContaining("fairlead's iptables engine") : '',
    });
  };
  const untilServed = (): Promise<void> =>
    untilHolds(async () => {
      for (const { client, tcp, udp } of Object.values(paths)) {
        for (const target of [tcp, udp]) {
          const { failures } = await client.burst(target, { connections: 10 });
          expect(failures).toEqual({});
        }
      }
    });

  /** Nothing differs but for a known reason. @param sides none: the plan, and the rules of the node */
  const expectSame = async (...sides: readonly string[]): Promise<void> => {
    const kubeconfig = stage.plane.kubeconfig({ identity: 'proxy', from: 'node' });
    const { runDir } = node.instance;
    const flags = ['--kubeconfig', kubeconfig, '--hostname-override', 'n1', '--run-dir', runDir];
    const { stdout, stderr, code } = await runCommand(node.instance, [
      'compare',
      ...sides,
      ...flags,
    ]);
    expect({ sides, code, stderr, stdout }).toMatchObject({ code: 0, stderr: '' });
  };

  const expectShadowAgrees = async (): Promise<void> => {
    await start('--shadow', '--shadow-wait', '300ms');
    const { runDir } = node.instance;
    const { shadow } = await until(
      async () => {
        const argv = ['status', '--run-dir', runDir, '-o', 'json'];
        const { stdout } = await runCommand(node.instance, argv);
        const report = JSON.parse(stdout || '{}') as Partial<Report>;
        const isDone = report.shadow?.comparedAt !== undefined && !report.shadow.isDue;
        return isDone ? report : undefined;
      },
      { what: 'the plan and the rules are compared' },
    );
    expect(shadow).toMatchObject({ differing: [], unread: [] });
    await stop();
  };

  /** @returns files with kube-proxy's rules */
  const save = (mode: Mode): string[] =>
    SAVES[mode].map((argv, index) => {
      const path = join(node.instance.runDir, `${mode}-${index}.save`);
      const [program = '', ...args] = insideSandbox(node.self, argv);
      writeFileSync(path, execFileSync(program, args, { stdio: ['ignore', 'pipe', 'ignore'] }));
      return path;
    });

  /** eBPF serves sockets beside kube-proxy first. Rules and sockets of the agent serve all, in place of kube-proxy. */
  async function replaceKubeProxy(mode: Mode, engine: Engine): Promise<void> {
    if (engine === 'bpf') {
      await start('--engine', engine, '--devices', 'none');
      await expectSame();
    }
    await proxy?.stop();
    const beside = agent;
    await start('--engine', engine, ...(beside === undefined ? [] : ['--take-over']));
    await beside?.stop();
    await removeKubeProxys(mode, engine);
  }

  /** The metrics that say whether kube-proxy has synced are the agent's as long as it has that port. */
  async function goBack(mode: Mode, engine: Engine): Promise<void> {
    await startProxy(mode);
    if (engine === 'userspace') await untilHolds(() => expectSame('plan', mode));
    await stop();
    await cleanup('--drain', ...ownPaths(node.instance));
  }

  const told = (from: string, to: string, report: SwitchReport): SwitchReport => {
    process.stderr.write(`${tableLine(from, to, report)}\n`);
    return report;
  };

  test.each(PAIRS)('kube-proxy %s -> %s -> kube-proxy', async (mode, engine) => {
    await startProxy(mode);
    await untilServed();
    await expectShadowAgrees();
    await expectSame();
    const saved = save(mode);

    const there = await trafficDuring(paths, () => replaceKubeProxy(mode, engine));
    told(`kube-proxy ${mode}`, engine, there);
    expect(there.failed).toEqual({});
    expect(there.lost).toEqual({ tcp: [], udp: [] });
    for (const file of saved) await expectSame('plan', file);
    const rules = OWN_RULES[engine];
    if (rules !== undefined) await expectSame('plan', rules);

    // With iptables these would be the chains that fairlead's engine has adopted.
    if (engine !== 'iptables') {
      const removed = await trafficDuring(paths, async () => proxy?.remove());
      told(engine, `${engine}, kube-proxy --cleanup`, removed);
      expect(removed).toMatchObject({ failed: {}, lost: { tcp: [], udp: [] } });
    }

    const back = told(
      engine,
      `kube-proxy ${mode}`,
      await trafficDuring(paths, () => goBack(mode, engine)),
    );
    const isRelayed = engine === 'userspace';
    const failed = Object.entries(back.failed).filter(
      ([name, { length }]) => !(isRelayed && mayBeLost(name)) || length > WORKERS,
    );
    expect(failed).toEqual([]);
    if (!isRelayed) expect(back.lost).toEqual({ tcp: [], udp: [] });
    await cleanup(...ownPaths(node.instance));
    await expectSame();
    await untilServed();
  });
});

/** As between engines: what the agent relays when it ends, and what a process of the node begins from an address that goes with it. */
const mayBeLost = (name: string): boolean => name.endsWith('UDP') || name === 'node TCP';
