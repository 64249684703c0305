// SPDX-License-Identifier: Apache-2.0
// The environment for comparisons: a real control plane, two nodes, and the real kube-proxy on one of them,
// which forwards a pod's connection to a pod on the other.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { run } from '../../../../src/sys/exec.ts';
import { insideSandbox, startServer } from '../../../../tools/lab/sandbox.ts';
import { buildTopology, type Topology } from '../../../../tools/lab/topology.ts';
import { type Client, startClient } from '../../../../tools/lab/traffic.ts';
import { until } from '../../../support/until.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import { sendServicesToNode } from '../control-plane/network.ts';
import { addNode, addPod, addService } from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { type KubeProxyOptions, prepareKubeProxy, startKubeProxy } from './kube-proxy.ts';

const readiness = await prepareCluster();
const missing = readiness.isReady ? await prepareKubeProxy() : readiness.reason;

describe.skipIf(!readiness.isReady || missing !== undefined)('kube-proxy', () => {
  let plane: ControlPlane;
  let topology: Topology;
  let client: Client;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    [plane, topology] = await Promise.all([
      startControlPlane(readiness.binaries),
      buildTopology([
        { name: 'one', pods: ['client'] },
        { name: 'two', pods: ['web'] },
      ]),
    ]);
    const [one, two] = topology.nodes;
    const [web] = two!.pods;
    for (const { name, index } of topology.nodes) {
      await addNode(plane.api, { name, addresses: [`192.168.77.${index}`, `fd00:77::${index}`] });
    }
    await plane.connect(one!);
    await startServer(web!, [8080]);
    await sendServicesToNode(one!.pods[0]!.namespace);
    client = await startClient(one!.pods[0]!);
    const { name, nodeName, ipv4, ipv6 } = web!;
    await addPod(plane.api, { name, nodeName, ips: [ipv4, ipv6], labels: { app: 'web' } });
  });
  afterAll(async () => {
    await plane?.remove();
    topology?.remove();
  });

  /** Through Service `kubernetes`, as programs in pods connect. */
  async function askFromPod(): Promise<string> {
    const kubeconfig = plane.kubeconfig({ identity: 'proxy', from: 'node' });
    const where = ['--kubeconfig', kubeconfig, '--server', 'https://10.96.0.1'];
    const argv = [plane.binaries.kubectl, ...where, 'get', '--raw', '/readyz'];
    const [shell = 'sh', ...args] = insideSandbox(topology.nodes[0]!.pods[0]!, argv);
    const { stdout, stderr } = await run(shell, args);
    return stdout + stderr;
  }

  test.each<KubeProxyOptions & { name: string }>([
    { name: 'iptables', mode: 'iptables', iptables: 'legacy' },
    { name: 'iptables over nf_tables', mode: 'iptables', iptables: 'nft' },
    { name: 'nftables', mode: 'nftables' },
  ])('carries a connection in mode $name, and then takes its rules away', async (options) => {
    const node = topology.nodes[0]!;
    const service = await addService(plane.api, options.name.replaceAll(/[ _]/g, '-'), {
      selector: { app: 'web' },
    });
    const target = { protocol: 'TCP', address: service.spec?.clusterIP ?? '', port: 80 } as const;
    const isAnswered = async () => (await client.once(target)).kind === 'answered';
    const proxy = await startKubeProxy(plane, node, options);
    try {
      await until(isAnswered, { what: 'an answer', timeoutMs: 60_000 });
      const mode = await fetch(`${proxy.metricsUrl}/proxyMode`);
      expect(await mode.text()).toBe(options.mode);
      expect(await askFromPod()).toBe('ok');
    } finally {
      await proxy.remove();
    }
    expect(await isAnswered()).toBe(false);
  });
});
