// SPDX-License-Identifier: Apache-2.0
// The life of a Service through kubectl: created, scaled, rolled out, changed in type, family and selector.
// After each step all three agents are in sync and connections reach the expected Pods.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import { connectionsOf } from '../../../../tools/lab/connections.ts';
import { serviceObject } from '../../../support/objects.ts';
import { until } from '../../../support/until.ts';
import { addPod, removePod, terminatePod } from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { type Fleet, startFleet } from './usage.ts';

const readiness = await prepareCluster();
const EVERYONE = ['p1-1', 'p2-1', 'p3-1'];
const tcp = (address: string, port = 80): Target => ({ protocol: 'TCP', address, port });

describe.skipIf(!readiness.isReady)('the life of a Service on three nodes', () => {
  let fleet: Fleet;
  let clusterIp: string;

  beforeAll(async () => {
    if (readiness.isReady) fleet = await startFleet(readiness.binaries, 2);
  });
  afterAll(() => fleet?.remove());

  /** What clients on all nodes reach. */
  async function expectReached(target: Target, names: readonly string[]): Promise<void> {
    const seen = await Promise.all(fleet.nodes.map((node) => node.reached(target)));
    expect(seen).toEqual(fleet.nodes.map(() => names));
  }
  const patch = (name: string, change: object, ...more: string[]): Promise<string> =>
    fleet.kubectl('patch', 'service', name, '--type=merge', '-p', JSON.stringify(change), ...more);

  test('created without Pods: every node rejects connections', async () => {
    await fleet.kubectl('create', 'service', 'clusterip', 'web', '--tcp=80:8080');
    await patch('web', { spec: { selector: { app: 'web' } } });
    await fleet.right({ web: 0 });
    [clusterIp] = (await fleet.clusterIps('web')) as [string];
    await expectReached(tcp(clusterIp), ['ECONNREFUSED']);
  });

  test('scaled from 0 to 50 and to 3', async () => {
    const made = Array.from({ length: 47 }, (_, index) => `made-up-${index}`);
    await Promise.all([
      ...EVERYONE.map((name) => fleet.addPod(fleet.pod(name), { app: 'web' })),
      ...made.map((name, index) =>
        addPod(fleet.plane.api, {
          name,
          nodeName: `n${(index % 3) + 1}`,
          ips: [`10.1.${(index % 3) + 1}.${100 + index}`],
          labels: { app: 'web' },
        }),
      ),
    ]);
    await fleet.right({ web: 50 });
    await Promise.all(made.map((name) => removePod(fleet.plane.api, name)));
    await fleet.right({ web: 3 });
    await expectReached(tcp(clusterIp), EVERYONE);
  });

  test('a rolling update under traffic fails no connection', async () => {
    const loads = await Promise.all(
      fleet.nodes.map(({ node }) => node.client().startLoad(tcp(clusterIp), { concurrency: 4 })),
    );
    for (const { node } of fleet.nodes) {
      const [old, next] = node.servers;
      await fleet.addPod(next!, { app: 'web' });
      await fleet.right({ web: 4 });
      await terminatePod(fleet.plane.api, old!.name);
      await fleet.right({ web: 3 });
      // It gets no more connections, so its server may stop when it has answered those that it has.
      const [server] = node.serverPrograms;
      await until(() => connectionsOf(server!.pid) === 0, 'its last connection to end');
      server!.kill('SIGKILL');
      await removePod(fleet.plane.api, old!.name);
    }
    await fleet.right({ web: 3 });
    const reports = await Promise.all(loads.map((load) => load.stop()));
    expect(reports.flatMap(({ failures }) => failures)).toEqual([]);
    for (const { connections } of reports) expect(connections).toBeGreaterThan(100);
    await expectReached(tcp(clusterIp), NEXT);
  });

  test('ClusterIP becomes NodePort, LoadBalancer, ExternalName, headless and ClusterIP again', async () => {
    await patch('web', { spec: { type: 'NodePort' } });
    await fleet.right((rows) => kinds(rows, 'web') === 'ClusterIP NodePort');
    const nodePort = await nodePortOf('web');
    for (const node of fleet.nodes) {
      expect(await node.reached(tcp(node.ipv4, nodePort))).toEqual(NEXT);
    }

    await patch('web', { spec: { type: 'LoadBalancer' } });
    const ingress = [{ ip: '198.51.100.7', ipMode: 'VIP' }];
    await patch('web', { status: { loadBalancer: { ingress } } }, '--subresource=status');
    await fleet.right((rows) => kinds(rows, 'web') === 'ClusterIP LoadBalancer NodePort');
    await expectReached(tcp('198.51.100.7'), NEXT);

    await patch('web', { spec: { type: 'ExternalName', externalName: 'example.org' } });
    await fleet.right((rows) => kinds(rows, 'web') === '');
    await expectNoAnswer(tcp(clusterIp));

    await fleet.kubectl('delete', 'service', 'web');
    await fleet.apply(webService({ clusterIP: 'None' }));
    await fleet.right((rows) => kinds(rows, 'web') === '');

    await fleet.kubectl('delete', 'service', 'web');
    await fleet.apply(webService({}));
    await fleet.right({ web: 3 });
    [clusterIp] = (await fleet.clusterIps('web')) as [string];
    await expectReached(tcp(clusterIp), NEXT);
  });

  test('one family becomes two and one again', async () => {
    await patch('web', { spec: { ipFamilyPolicy: 'RequireDualStack' } });
    await fleet.right((rows) => kinds(rows, 'web') === 'ClusterIP ClusterIP' && isFull(rows, 3));
    const [ipv4 = '', ipv6 = ''] = await fleet.clusterIps('web');
    await expectReached(tcp(ipv4), NEXT);
    await expectReached(tcp(ipv6), NEXT);
    await patch('web', { spec: { ipFamilyPolicy: 'SingleStack' } });
    await fleet.right((rows) => kinds(rows, 'web') === 'ClusterIP' && isFull(rows, 3));
    await expectReached(tcp(ipv4), NEXT);
    await expectNoAnswer(tcp(ipv6));
  });

  test('a new selector: other Pods, the same address', async () => {
    await fleet.kubectl('label', 'pod', 'p2-2', 'track=canary');
    await fleet.kubectl('set', 'selector', 'service', 'web', 'track=canary');
    await fleet.right({ web: 1 });
    await expectReached(tcp(clusterIp), ['p2-2']);
    await fleet.kubectl('set', 'selector', 'service', 'web', 'app=web');
    await fleet.right({ web: 3 });
    await expectReached(tcp(clusterIp), NEXT);
  });

  async function expectNoAnswer(target: Target): Promise<void> {
    for (const node of fleet.nodes) {
      expect(await node.reached(target, 3)).toEqual([expect.stringMatching(/^E[A-Z]+$/)]);
    }
  }
  async function nodePortOf(name: string): Promise<number> {
    const path = 'jsonpath={.spec.ports[0].nodePort}';
    return Number(await fleet.kubectl('get', 'service', name, '-o', path));
  }
});

const NEXT = ['p1-2', 'p2-2', 'p3-2'];

interface Row {
  readonly name: string;
  readonly kind: string;
  readonly desired: readonly string[] | undefined;
}

/** Kinds of a Service's frontends, in order. */
function kinds(rows: readonly Row[], service: string): string {
  const own = rows.filter(({ name }) => name === service);
  return own
    .map(({ kind }) => kind)
    .sort()
    .join(' ');
}

const isFull = (rows: readonly Row[], count: number): boolean =>
  rows.every(({ name, desired }) => name !== 'web' || desired?.length === count);

function webService(spec: object): object {
  const ports = [{ name: '80-8080', port: 80, targetPort: 8080 }];
  return serviceObject('web', { selector: { app: 'web' }, ports, ...spec });
}
