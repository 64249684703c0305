// SPDX-License-Identifier: Apache-2.0
// Packet programs begin with IPv4 alone, and are loaded with more before the first Service that needs more is served: traffic
// of other Services goes on meanwhile, and the next agent begins with what this one had.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { writeSysctls } from '../../../../src/sys/netns.ts';
import { endpointSlices } from '../../../../tools/lab/manifests.ts';
import { clusterIp, serviceObject } from '../../../support/objects.ts';
import {
  BALANCER,
  type DirectCluster,
  OUTSIDE,
  PORTS,
  startDirectCluster,
  VIPS,
} from '../../../support/packets/direct-return.ts';
import { until } from '../../../support/until.ts';

const FORWARDING = 'net/ipv6/conf/all/forwarding';
const PLAIN = { protocol: 'TCP', address: BALANCER[0], port: 30_080 } as const;
const ALL = ['IPv4', 'IPv6', 'direct return'];

let cluster: DirectCluster;

beforeAll(async () => {
  const prepare = ({ nodes }: Pick<DirectCluster, 'nodes'>) => forwardIpv6(nodes, '0');
  cluster = await startDirectCluster({ willing: [], prepare });
  const [balancer] = cluster.nodes;
  balancer!.manifests.put('plain.yaml', plainService());
  // programmed() puts Services of both families.
  await until(async () => (await cluster.outside.once(PLAIN)).kind === 'answered', 'an answer');
});
afterAll(() => cluster?.stop());

async function forwardIpv6(nodes: DirectCluster['nodes'], value: '0' | '1'): Promise<void> {
  for (const { self } of nodes) await writeSysctls(self.namespace, { [FORWARDING]: value });
}

/** Of IPv4, by NodePort to the pod of another node. */
function plainService() {
  const port = { name: 'main', port: 80, targetPort: 8080, protocol: 'TCP', nodePort: PLAIN.port };
  const [ipv4] = endpointSlices('plain', { name: 'main', port: 8080, protocol: 'TCP' }, [
    { pod: cluster.servers[1]! },
  ]);
  return [
    serviceObject(
      'plain',
      { type: 'NodePort', ...clusterIp('10.96.0.99'), ports: [port] },
      { metadata: { name: 'plain', namespace: 'default' } },
    ),
    ipv4!,
  ];
}

const features = async (): Promise<readonly string[] | undefined> =>
  (await cluster.nodes[0]!.status()).packetFeatures;

/** Whom the servers of the others' Service see. */
async function seen(family: 0 | 1): Promise<string> {
  const to = { protocol: 'UDP', address: VIPS[family], port: PORTS.UDP } as const;
  const answer = await cluster.outside.once(to);
  return answer.kind === 'answered' ? answer.clientSeen.address : answer.code;
}

test('what a later Service needs is there before it is served, and no packet of others is lost', async () => {
  expect(await features()).toEqual(['IPv4']);
  const own = await cluster.outside.open(PLAIN);
  const load = await cluster.outside.startLoad(PLAIN, { concurrency: 2, timeoutMs: 60_000 });
  await forwardIpv6(cluster.nodes, '1');

  await cluster.serve({ forwarding: 'snat', endpoints: [{ pod: cluster.servers[1]! }] });
  expect(await features()).toEqual(['IPv4', 'IPv6']);
  expect([await seen(0), await seen(1)]).toEqual([...BALANCER]);

  cluster.writeNodes(['n1', 'n2', 'n3']);
  await cluster.serve({ forwarding: 'dsr', endpoints: [{ pod: cluster.servers[1]! }] });
  expect(await features()).toEqual(ALL);
  await until(async () => (await seen(0)) === OUTSIDE[0], 'the node of the server takes Geneve');
  expect(await seen(1)).toBe(OUTSIDE[1]);

  expect(await own.talk('still there')).toMatchObject({ kind: 'answered', backend: 's2' });
  const { failures, connections } = await load.stop();
  expect(failures).toEqual([]);
  expect(connections).toBeGreaterThan(100);
  await own.close();
});

test('the next agent begins with the same, whatever Services there are', async () => {
  const files = ['TCP.yaml', 'UDP.yaml'];
  for (const { manifests } of cluster.nodes) files.map((file) => manifests.remove(file));
  cluster.writeNodes([]);
  await cluster.programmed();
  await cluster.restart(0);
  expect(await features()).toEqual(ALL);
});
