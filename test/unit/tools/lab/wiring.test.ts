// SPDX-License-Identifier: Apache-2.0
// The network of a topology as lines of ip(8).
import { expect, test } from 'vitest';
import {
  type NodeHost,
  nodeAddresses,
  nodeLines,
  podAddresses,
  podLines,
  uplinkLines,
  wireLines,
} from '../../../../tools/lab/wiring.ts';

function node(index: number, podNames: readonly string[]): NodeHost {
  const namespace = `fl-n${index}`;
  const sandbox = { cgroup: '/cg', nodeName: `n${index}` };
  const pods = podNames.map((name, pod) => ({
    ...sandbox,
    ...podAddresses(index, pod),
    ...{ name, namespace: `${namespace}-${name}` },
  }));
  return { name: `n${index}`, namespace, cgroup: '/cg', index, ...nodeAddresses(index), pods };
}

test('a node gets one bridge port for each pod, with the other end inside the pod', () => {
  const lines = nodeLines(node(1, ['web-1', 'web-2']));
  expect(lines).toContain('addr add 10.1.1.1/24 dev br0');
  expect(lines).toContain('addr add fd00:10:1::1/64 dev br0 nodad');
  expect(lines.filter((line) => line.includes('veth'))).toEqual([
    'link add v1 type veth peer name eth0 netns fl-n1-web-1',
    'link add v2 type veth peer name eth0 netns fl-n1-web-2',
  ]);
});

test('a pod reaches everything else through its node, in both families', () => {
  const host = node(3, ['web-1']);
  const lines = podLines(host.pods[0]!, host);
  expect(lines).toContain('addr add 10.1.3.10/24 dev eth0');
  expect(lines).toContain('addr add fd00:10:3::a/64 dev eth0 nodad');
  expect(lines.filter((line) => line.startsWith('route add default'))).toEqual([
    'route add default via 10.1.3.1',
    'route add default via fd00:10:3::1',
  ]);
  expect(lines).toContain('route add unreachable 10.96.0.0/16');
});

test('every node has routes to the pods of all other nodes, and only of those', () => {
  const nodes = [node(1, []), node(2, []), node(3, [])];
  const routes = uplinkLines(nodes[1]!, nodes).filter((line) => line.startsWith('route'));
  expect(routes).toEqual([
    'route add 10.1.1.0/24 via 192.168.77.1',
    'route add fd00:10:1::/64 via fd00:77::1',
    'route add 10.1.3.0/24 via 192.168.77.3',
    'route add fd00:10:3::/64 via fd00:77::3',
  ]);
  expect(wireLines(nodes).filter((line) => line.includes('peer name uplink'))).toHaveLength(3);
});
