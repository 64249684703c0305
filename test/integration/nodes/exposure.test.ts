// SPDX-License-Identifier: Apache-2.0
// Who may reach a Service, and where: source ranges at every external frontend, ranges that deny, exposure by kind and by
// node. Something to move to from a host firewall that filters NodePorts. kube-proxy does not know these annotations: what it
// answers is what a Service gets that loses them.
import { expect, test } from 'vitest';
import { compiledPath } from '../../../tools/lab/sandbox.ts';
import { type ObjectText, textOf } from '../../support/fixture/cases/case.ts';
import type { ProbeTarget } from '../../support/fixture/programs/probe.ts';
import { fairleadPaths } from '../../support/fixture/proxies/fairlead.ts';
import { onEachProxy } from '../../support/nodes/other-node.ts';
import { isKubeProxy } from '../../support/nodes/proxies.ts';
import { untilHolds } from '../../support/until.ts';

const to = (address: string, port: number): ProbeTarget => ({ protocol: 'TCP', address, port });
const NODE = '192.0.2.11';
const NODE_PORT = to(NODE, 30_080);
const VIP = to('203.0.113.10', 80);
const EXTERNAL = to('203.0.113.20', 80);
const SVC = to('10.96.0.10', 80);
const HEALTH = 32_000;
const MANY = 40;

const annotated = (annotations: object, spec: object = {}): ObjectText => ({
  use: 'balancer',
  patch: { metadata: { annotations }, spec },
});
const labelled = (labels: object): ObjectText => ({ use: 'n1', patch: { metadata: { labels } } });

onEachProxy('exposure', {}, (node) => {
  const ignored = (answer: string) => ({
    all: answer,
    'kube-proxy iptables': 'A:8080',
    'kube-proxy nftables': 'A:8080',
  });
  const ofFairlead = test.skipIf(isKubeProxy(node.proxy));
  const sees = (
    what: string,
    expected: Parameters<typeof node.sees>[1],
    [client, target]: readonly [string, ProbeTarget],
  ) =>
    node.sees(`exposure: ${what}`, expected, () => node.ask(client, target, { timeoutMs: 1_000 }));

  test('ranges of any external frontend: clients in them and out of them', async () => {
    await node.serve([
      annotated({ 'fairlead.io/source-ranges': '198.51.100.0/24,10.1.0.0/16' }),
      'a',
    ]);
    await sees('outside, in the ranges -> NodePort', 'A:8080', ['X', NODE_PORT]);
    await sees('outside, in no range -> NodePort', ignored('silent'), ['X2', NODE_PORT]);
    await sees('outside, in no range -> external IP', ignored('silent'), ['X2', EXTERNAL]);
    await sees('outside, in no range -> load balancer address', ignored('silent'), ['X2', VIP]);
    await sees('pod, in the ranges -> NodePort', 'A:8080', ['p1', NODE_PORT]);
    await sees('node, in no range -> NodePort', ignored('silent'), ['n1', NODE_PORT]);
    await sees('node -> ClusterIP, which has no ranges', 'A:8080', ['n1', SVC]);
  });

  test('the same ranges deny', async () => {
    const denied = { 'fairlead.io/source-ranges': '198.51.100.0/24' };
    await node.serve([annotated({ ...denied, 'fairlead.io/source-ranges-policy': 'deny' }), 'a']);
    await sees('outside, denied -> NodePort', ignored('silent'), ['X', NODE_PORT]);
    await sees('outside, denied -> load balancer address', ignored('silent'), ['X', VIP]);
    await sees('outside, not denied -> NodePort', 'A:8080', ['X2', NODE_PORT]);
    await sees('node, not denied -> NodePort', 'A:8080', ['n1', NODE_PORT]);
    await sees(
      'node, not denied -> NodePort at loopback',
      { all: 'A:8080', 'kube-proxy nftables': 'refused' },
      ['n1', to('127.0.0.1', 30_080)],
    );
    await node.put('none');
    await sees('outside, not denied, no endpoint -> NodePort', 'refused', ['X2', NODE_PORT]);
    const dropped = {
      all: 'silent',
      'kube-proxy iptables': 'refused',
      'kube-proxy nftables': 'refused',
    };
    await sees('outside, denied, no endpoint -> NodePort', dropped, ['X', NODE_PORT]);
  });

  ofFairlead('connections go on while ranges change from allowing to denying', async () => {
    await node.serve([annotated({ 'fairlead.io/source-ranges': '198.51.100.0/24' }), 'a']);
    await sees('X is admitted', 'A:8080', ['X', NODE_PORT]);
    const stay = await openMany();
    const denied = { 'fairlead.io/source-ranges': '198.51.100.0/24' };
    await node.put(annotated({ ...denied, 'fairlead.io/source-ranges-policy': 'deny' }));
    await sees('X is denied', 'silent', ['X', NODE_PORT]);
    await stay();
  });

  test('a load balancer without NodePort and ClusterIP', async () => {
    const ports = [{ name: 'http', port: 80, targetPort: 8080, nodePort: 8080 }];
    await node.serve([annotated({ 'fairlead.io/expose': 'LoadBalancer' }, { ports }), 'b']);
    await sees('load balancer address', { all: 'B:8080' }, ['X', VIP]);
    const hidden = (answer: string) => ({
      all: answer,
      'kube-proxy iptables': 'B:8080',
      'kube-proxy nftables': 'B:8080',
    });
    await sees('NodePort not exposed: the process that has it answers', hidden('h1:8080'), [
      'X',
      to(NODE, 8080),
    ]);
    await sees('ClusterIP not exposed', hidden('refused'), ['p1', SVC]);
    await sees('the same from the node', hidden('refused'), ['n1', SVC]);
    if (isKubeProxy(node.proxy)) return;
    expect(await explained('10.1.1.9', '10.96.0.10:80/tcp')).toContain(
      'does not expose it (fairlead.io/expose)',
    );
  });

  ofFairlead(
    'frontends for clients from outside follow the labels of the node, and connections stay',
    async () => {
      const local = { externalTrafficPolicy: 'Local', healthCheckNodePort: HEALTH };
      await node.serve([
        annotated({ 'fairlead.io/expose-on-nodes': 'role in (edge)' }, local),
        'a',
      ]);
      await sees('not this node: NodePort', 'refused', ['X', NODE_PORT]);
      await sees('not this node: ClusterIP', 'A:8080', ['p1', SVC]);
      await untilHealth(503);
      expect(await explained('198.51.100.9', `${NODE}:30080/tcp`)).toContain(
        'fairlead.io/expose-on-nodes means nodes with role in (edge)',
      );
      await node.put(labelled({ role: 'edge' }));
      await sees('this node: NodePort', 'A:8080', ['X', NODE_PORT]);
      await sees('this node: load balancer address', 'A:8080', ['X', VIP]);
      await untilHealth(200);
      const rows = await node.fairlead('n1', 'services', '-o', 'wide');
      expect(rows.stdout).toMatch(/EXPOSED-ON.*\n(.*\n)*.*role in \(edge\)/);
      const stay = await openMany();
      await node.put(labelled({ role: 'worker' }));
      await sees('no longer this node: NodePort', 'refused', ['X', NODE_PORT]);
      await untilHealth(503);
      await stay();
    },
  );

  /** Streams of X to the NodePort. @returns a function that expects all of them to be answered, and closes them */
  const openMany = async (): Promise<() => Promise<void>> => {
    const probe = await node.stage().probe('X');
    const streams = await Promise.all(Array.from({ length: MANY }, () => probe.open(NODE_PORT)));
    const answers = streams.map(({ first }) => textOf(first));
    expect(answers).toEqual(answers.map(() => 'A:8080'));
    return async () => {
      const again = await Promise.all(streams.map((stream) => stream.talk()));
      expect(again.map(textOf)).toEqual(answers);
      for (const stream of streams) await stream.close();
    };
  };

  const explained = (from: string, to: string): Promise<string> => {
    const { runDir } = fairleadPaths(node.stage().cluster, 'n1');
    const argv = [process.execPath, compiledPath('main.js'), 'explain', '--from', from, '--to', to];
    return node.run('n1', [...argv, '--run-dir', runDir]);
  };

  const untilHealth = (status: number): Promise<void> =>
    untilHolds(async () => {
      const argv = [
        'curl',
        '-s',
        '-o',
        '/dev/null',
        '-w',
        '%{http_code}',
        `http://${NODE}:${HEALTH}`,
      ];
      expect(await node.run('n1', argv)).toBe(String(status));
    });
});
