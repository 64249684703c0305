// SPDX-License-Identifier: Apache-2.0
// One proxy takes the place of another under load, as docs/install.md describes it: kube-proxy and fairlead in both directions, and
// fairlead's engines. No new connection fails, and established ones live on.
import { existsSync, readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { programmedBelow } from '../../../../src/instance/dataplanes.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import type { TestNode, TestNodes } from '../../../support/node.ts';
import { until, untilHolds } from '../../../support/until.ts';
import { type ClusterAgent, startClusterAgent } from '../agent/agent.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import { type KubeProxy, prepareKubeProxy, startKubeProxy } from '../kube-proxy/kube-proxy.ts';
import {
  NODE_ADDRESS,
  startVisitedNode,
  type VisitedNode,
  WEB_PODS,
} from '../kube-proxy/visited-node.ts';
import { removeAllRules, rulesOf } from '../leftovers/foreign.ts';
import { addService } from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { startTraffic, type Targets, type Traffic } from './traffic.ts';

const readiness = await prepareCluster();
const missing = readiness.isReady ? await prepareKubeProxy() : readiness.reason;

/** Not only that it serves nothing any more: what its connections need could go right after that. */
const HANDED_OVER =
  /keeping the other engine until its connections end|the other engine is removed/;
const LIVES_ON = { failed: 0, streams: '8/8', udpAnswered: '8/8' };
const IS_SAME = { ...LIVES_ON, affinity: 'kept' };

describe.skipIf(!readiness.isReady || missing !== undefined)('switching under load', () => {
  let stage: VisitedNode;
  let plane: ControlPlane;
  let nodes: TestNodes;
  let node: TestNode;
  let outside: TestNode;
  let targets: Targets;
  let traffic: Traffic;
  let agent: ClusterAgent | undefined;
  let proxy: KubeProxy | undefined;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    stage = await startVisitedNode(readiness.binaries, ['web-1', 'web-2', 'web-3']);
    ({ plane, nodes, node, outside } = stage);
    const selector = WEB_PODS;
    const { spec } = await addService(plane.api, 'web', {
      type: 'NodePort',
      selector,
      ports: [
        { name: 'tcp', port: 80, targetPort: 8080 as never, protocol: 'TCP' },
        { name: 'udp', port: 53, targetPort: 5353 as never, protocol: 'UDP' },
      ],
    });
    const sticky = await addService(plane.api, 'sticky', {
      type: 'NodePort',
      selector,
      sessionAffinity: 'ClientIP',
    });
    const at = (protocol: 'TCP' | 'UDP', port: number | undefined): Target => ({
      ...{ protocol, address: NODE_ADDRESS, port: port ?? 0 },
    });
    targets = {
      tcp: at('TCP', spec?.ports?.[0]?.nodePort),
      udp: at('UDP', spec?.ports?.[1]?.nodePort),
      sticky: at('TCP', sticky.spec?.ports?.[0]?.nodePort),
    };
  });
  afterAll(async () => {
    await agent?.stop();
    await proxy?.remove();
    await stage?.remove();
  });

  const start = async (...flags: readonly string[]): Promise<ClusterAgent> => {
    agent = await startClusterAgent(plane, node, { identity: 'proxy', flags });
    return agent;
  };
  const stop = async (): Promise<void> => {
    await agent?.stop();
    agent = undefined;
  };
  const startProxy = async (mode: 'iptables' | 'nftables'): Promise<void> => {
    proxy = await startKubeProxy(plane, nodes.topology.nodes[0]!, { mode });
  };
  const cleanup = async (...flags: readonly string[]): Promise<string> => {
    const { stdout, stderr, code } = await runCommand(node.instance, ['cleanup', ...flags]);
    expect([code, stderr]).toEqual([0, '']);
    return stdout;
  };
  const untilServed = (): Promise<void> =>
    untilHolds(async () => {
      for (const target of Object.values(targets)) {
        const { failures } = await outside.client().burst(target, { connections: 20 });
        expect(failures).toEqual({});
      }
    });
  const said = (text: RegExp): Promise<string> =>
    until(() => agent?.log.find((line) => text.test(line)), text.source);
  const hasStopped = async (engine: 'bpf' | 'iptables'): Promise<boolean> =>
    engine === 'bpf'
      ? programmedBelow(node.instance.bpfRoot).frontends.length === 0
      : !(await rulesOf(node.self)).some((rule) => rule.includes('KUBE-SERVICES'));
  /** Neither rules nor pins; KUBE-FIREWALL is the kubelet's, too. */
  const expectNothingLeft = async (): Promise<void> => {
    const rules = await rulesOf(node.self);
    expect(rules.filter((rule) => !rule.includes('KUBE-FIREWALL'))).toEqual([]);
    const { bpfRoot } = node.instance;
    expect(existsSync(bpfRoot) ? readdirSync(bpfRoot) : []).toEqual([]);
  };

  test.each(['iptables', 'nftables'] as const)(
    'kube-proxy (%s) -> fairlead -> kube-proxy',
    async (mode) => {
      // The sets of nftables are not read.
      const expected = mode === 'iptables' ? IS_SAME : LIVES_ON;
      await startProxy(mode);
      await untilServed();
      traffic = await startTraffic(outside.client(), targets);
      await start();
      // After it is ready, and before the lists go with the rules of kube-proxy.
      if (mode === 'iptables') await said(/session affinity (?:not )?adopted/);
      await proxy?.stop();
      await cleanup('--kube-proxy');
      expect(await traffic.report(`kube-proxy ${mode} -> fairlead`)).toMatchObject(expected);

      await startProxy(mode);
      await stop();
      expect(await cleanup('--drain', ...ownPaths(node.instance))).toMatch(/^kept .* connections/m);
      expect(await traffic.report(`fairlead -> kube-proxy ${mode}`)).toMatchObject(expected);
      await cleanup(...ownPaths(node.instance));
      await traffic.close();
      await untilServed();
      await proxy?.remove();
      proxy = undefined;
      await removeAllRules(node.self);
    },
  );

  test('fairlead bpf -> iptables -> bpf', async () => {
    await start('--engine', 'bpf');
    await untilServed();
    traffic = await startTraffic(outside.client(), targets);
    await stop();
    await start('--engine', 'iptables');
    await said(HANDED_OVER);
    expect(await traffic.report('bpf -> iptables')).toMatchObject(IS_SAME);
    await stop();
    await start('--engine', 'bpf');
    await said(HANDED_OVER);
    expect(await traffic.report('iptables -> bpf')).toMatchObject(IS_SAME);
    await traffic.close();
    await stop();
    await cleanup(...ownPaths(node.instance));
    await expectNothingLeft();
  });

  test.each([
    ['bpf', 'iptables'],
    ['iptables', 'bpf'],
  ] as const)('%s -> %s: an agent that is killed in between is continued', async (from, to) => {
    await start('--engine', from);
    await untilServed();
    traffic = await startTraffic(outside.client(), targets);
    await stop();
    // Ready, which comes before the other engine stops to serve.
    await (await start('--engine', to)).kill();
    await start('--engine', to);
    await until(() => hasStopped(from), `the end of ${from}`);
    expect(await traffic.report(`${from} -> ${to}, killed in between`)).toMatchObject(IS_SAME);
    await traffic.close();
    await stop();
    await cleanup(...ownPaths(node.instance));
    await expectNothingLeft();
  });
});
