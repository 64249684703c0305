// SPDX-License-Identifier: Apache-2.0
// What the real kube-proxy leaves on a node that fairlead serves: reported, removed only when asked, and nothing else with it.
// Case 154: established connections through kube-proxy's translation survive.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { RunResult } from '../../../../src/sys/exec.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import type { TestNode, TestNodes } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';
import { type ClusterAgent, startClusterAgent } from '../agent/agent.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
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
import { addService } from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { addForeignRules, forgetConnections, removeAllRules, rulesOf } from './foreign.ts';

const readiness = await prepareCluster();
const missing = readiness.isReady ? await prepareKubeProxy() : readiness.reason;

type Mode = KubeProxyOptions & { readonly name: string; readonly variant: 'nft' | 'legacy' };
const MODES: readonly Mode[] = [
  { name: 'iptables-legacy', mode: 'iptables', iptables: 'legacy', variant: 'legacy' },
  { name: 'iptables-nft', mode: 'iptables', iptables: 'nft', variant: 'nft' },
  { name: 'nftables', mode: 'nftables', variant: 'nft' },
];

describe.skipIf(!readiness.isReady || missing !== undefined)('leftovers of kube-proxy', () => {
  let stage: VisitedNode;
  let plane: ControlPlane;
  let nodes: TestNodes;
  let node: TestNode;
  let outside: TestNode;
  let nodePort: Target;
  let proxy: KubeProxy | undefined;
  let agent: ClusterAgent | undefined;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    stage = await startVisitedNode(readiness.binaries, ['web-1', 'web-2']);
    ({ plane, nodes, node, outside } = stage);
    const selector = WEB_PODS;
    const { spec } = await addService(plane.api, 'web', { type: 'NodePort', selector });
    await addService(plane.api, 'none', { selector: { app: 'none' } });
    await addService(plane.api, 'sticky', { selector, sessionAffinity: 'ClientIP' });
    const port = spec?.ports?.[0]?.nodePort ?? 0;
    nodePort = { protocol: 'TCP', address: NODE_ADDRESS, port };
  });
  afterEach(async () => {
    await agent?.stop();
    await proxy?.remove();
    agent = undefined;
    proxy = undefined;
    await runCommand(node.instance, ['cleanup', ...ownPaths(node.instance)]);
    await removeAllRules(node.self);
  });
  afterAll(() => stage?.remove());

  const cleanup = (...flags: readonly string[]): Promise<RunResult> =>
    runCommand(node.instance, ['cleanup', '--kube-proxy', ...flags]);
  const status = async (): Promise<string> =>
    (await runCommand(node.instance, ['status', '--run-dir', node.instance.runDir])).stdout;
  const visited = async (): Promise<string[]> => {
    const { hits, failures } = await outside.client().burst(nodePort, { connections: 40 });
    return [...Object.keys(hits), ...Object.keys(failures)].sort();
  };
  const untilVisited = (): Promise<void> =>
    untilHolds(async () => expect(await visited()).toEqual(['web-1', 'web-2']));
  const start = async (mode: Mode): Promise<void> => {
    proxy = await startKubeProxy(plane, nodes.topology.nodes[0]!, mode);
    await untilVisited();
  };

  test.each(MODES)('$name: all of it goes, and nothing of others', async (mode) => {
    await addForeignRules(node.self, mode.variant);
    const before = await rulesOf(node.self);
    await start(mode);
    const stream = await outside.client().open(nodePort);
    const refused = await cleanup();
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(
      /^fairlead: kube-proxy \(pid \d+\) serves this network namespace/,
    );

    agent = await startClusterAgent(plane, node, { identity: 'proxy' });
    await untilHolds(async () => expect(await status()).not.toContain('Warning'));
    await proxy?.stop();
    const left = await rulesOf(node.self);
    expect(left.length).toBeGreaterThan(before.length);
    await untilHolds(async () =>
      expect(await status()).toMatch(
        /^Warning: {4}kube-proxy has left .*: list them with `fairlead cleanup --kube-proxy --dry-run`/m,
      ),
    );
    const listed = await cleanup('--dry-run');
    expect(listed.code).toBe(0);
    expect(await rulesOf(node.self)).toEqual(left);

    const load = await outside.client().startLoad(nodePort);
    const done = await cleanup();
    expect(done).toMatchObject({ code: 0, stderr: '' });
    expect(listed.stdout).toContain(done.stdout.trim().replace(/^removed/, 'would remove'));
    expect(await rulesOf(node.self)).toEqual(before);
    expect(await stream.talk('still there')).toMatchObject({ kind: 'answered' });
    expect((await load.stop()).failures).toEqual([]);
    expect(await visited()).toEqual(['web-1', 'web-2']);
    expect((await cleanup()).stdout).toBe('kube-proxy has left nothing to remove\n');
    await stream.close();
  });

  const UNTRACKED = MODES.map((mode) => ({
    ...mode,
    // Else KUBE-FIREWALL, which stays, tracks connections.
    flags: mode.mode === 'iptables' ? ['--iptables-localhost-nodeports=false'] : [],
  }));

  test.each(UNTRACKED)(
    '$name: where nothing else tracks connections, they live on',
    async (mode) => {
      await start(mode);
      const stream = await outside.client().open(nodePort);
      agent = await startClusterAgent(plane, node, { identity: 'proxy' });
      await proxy?.stop();
      const done = await cleanup();
      expect(done.stdout).toMatch(/^kept .*connections? (?:is|are) translated/m);
      expect(await stream.talk('still there')).toMatchObject({ kind: 'answered' });
      expect(await visited()).toEqual(['web-1', 'web-2']);
      expect((await rulesOf(node.self)).join('\n')).not.toMatch(
        /KUBE-(?!FORWARD|FIREWALL)|-j KUBE-FORWARD/,
      );
      await untilHolds(async () => expect(await status()).not.toContain('Warning'));
      await stream.close();
      await forgetConnections(node.self);
      expect((await cleanup()).stdout).toMatch(/^removed /);
      expect((await rulesOf(node.self)).filter((rule) => !rule.includes('KUBE-FIREWALL'))).toEqual(
        [],
      );
    },
  );
});
