// SPDX-License-Identifier: Apache-2.0
// `cleanup --drain` beside the real kube-proxy: the rules that it left, which name an endpoint that is gone, are not enough; its first sync
// is, in each of its modes.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { programmedBelow } from '../../../../src/instance/dataplanes.ts';
import type { RunResult } from '../../../../src/sys/exec.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import type { TestNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';
import { startClusterAgent } from '../agent/agent.ts';
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
import { addPod, addService, removePod } from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';

const readiness = await prepareCluster();
const missing = readiness.isReady ? await prepareKubeProxy() : readiness.reason;

const MODES: readonly (KubeProxyOptions & { readonly where: string })[] = [
  { where: 'iptables-legacy', mode: 'iptables', iptables: 'legacy' },
  { where: 'iptables-nft', mode: 'iptables', iptables: 'nft' },
  { where: 'nftables', mode: 'nftables' },
];

/** kube-proxy writes one family after the other: the rules of one may be read before, and its metrics asked after its sync. */
const servedText = (where: string): RegExp => {
  const text = `(${where} serves \\d address(es)?|kube-proxy has synced since it started; .*)`;
  return new RegExp(`^IPv4: ${text}; IPv6: ${text}$`);
};

describe.skipIf(!readiness.isReady || missing !== undefined)('the way back to kube-proxy', () => {
  let stage: VisitedNode;
  let node: TestNode;
  let nodePort: Target;
  let proxy: KubeProxy | undefined;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    stage = await startVisitedNode(readiness.binaries, ['web-1', 'web-2']);
    node = stage.node;
    const { spec } = await addService(stage.plane.api, 'web', {
      type: 'NodePort',
      selector: WEB_PODS,
      ipFamilyPolicy: 'RequireDualStack',
    });
    await addService(stage.plane.api, 'none', { selector: { app: 'none' } });
    const port = spec?.ports?.[0]?.nodePort ?? 0;
    nodePort = { protocol: 'TCP', address: NODE_ADDRESS, port };
  });
  afterAll(async () => {
    await proxy?.remove();
    await stage?.remove();
  });

  const start = async (options: KubeProxyOptions): Promise<void> => {
    proxy = await startKubeProxy(stage.plane, stage.nodes.topology.nodes[0]!, options);
  };
  const drained = (wait: string): Promise<RunResult> =>
    runCommand(node.instance, [
      ...['cleanup', '--drain', '--wait-for-proxy', wait],
      ...ownPaths(node.instance),
    ]);
  const served = (): number => programmedBelow(node.instance.bpfRoot).frontends.length;
  const visited = async (): Promise<readonly string[]> => {
    const { hits, failures } = await stage.outside.client().burst(nodePort, { connections: 20 });
    return [...Object.keys(hits), ...Object.keys(failures)].sort();
  };
  const untilVisited = (names: readonly string[]): Promise<void> =>
    untilHolds(async () => expect(await visited()).toEqual(names));
  const addWeb2 = async (): Promise<void> => {
    const [, { name, ipv4, ipv6 } = node.servers[0]!] = node.servers;
    const pod = { name, nodeName: 'n1', ips: [ipv4, ipv6], labels: WEB_PODS };
    await addPod(stage.plane.api, pod);
  };

  test.each(MODES)('$where', async (mode) => {
    await start(mode);
    await untilVisited(['web-1', 'web-2']);
    await proxy?.stop();
    const agent = await startClusterAgent(stage.plane, node, { identity: 'proxy' });
    await removePod(stage.plane.api, 'web-2');
    await untilVisited(['web-1']);
    await agent.stop();

    const before = served();
    const early = await drained('100ms');
    expect(early.code, early.stdout).toBe(124);
    expect(early.stderr).toContain(`${mode.where} has other endpoints for 1 (default/web `);
    expect(served()).toBe(before);

    const waiting = drained('1m');
    await start(mode);
    const done = await waiting;
    expect(done).toMatchObject({ code: 0, stderr: '' });
    const lines = done.stdout.split('\n');
    const found = lines[lines.indexOf('bpf serves no new connections any more') - 1];
    expect(found).toMatch(servedText(mode.where));
    // At once: no rule names the one that is gone.
    expect(await visited()).toEqual(['web-1']);

    await runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)]);
    await proxy?.remove();
    proxy = undefined;
    await removeAllRules(node.self);
    await addWeb2();
  });
});
