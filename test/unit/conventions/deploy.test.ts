// SPDX-License-Identifier: Apache-2.0
// The manifests of deploy/kustomize name what the program has: flags, paths of probes, ports, the role
// and rights its documents speak of. That an API server takes them is test/integration/cluster/agent/rights.test.ts's.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { HEALTHZ_PORT } from '../../../src/config/addresses.ts';
import { FLAGS } from '../../../src/config/flags/flags.ts';
import { MOUNTED_KUBECONFIG } from '../../../src/source/apiserver/transport/api-server.ts';

const root = new URL('../../..', import.meta.url).pathname;
const folder = join(root, 'deploy/kustomize');
const text = (path: string): string => readFileSync(join(folder, path), 'utf8');
const { spec: set, metadata } = parse(text('base/daemon-set.yaml'));
const pod = set.template.spec;
const [agent] = pod.containers;
const [prepare] = pod.initContainers;

interface Named {
  readonly name: string;
}
interface Mount extends Named {
  readonly mountPath: string;
}

describe('the DaemonSet', () => {
  test('selects its own Pods', () => {
    expect(set.template.metadata.labels).toMatchObject(set.selector.matchLabels);
    expect(set.selector.matchLabels).toEqual({ 'k8s-app': metadata.name });
  });

  test('runs on every node of Linux, on the node’s network, before all that is less urgent', () => {
    expect(pod).toMatchObject({
      hostNetwork: true,
      priorityClassName: 'system-node-critical',
      nodeSelector: { 'kubernetes.io/os': 'linux' },
      tolerations: [{ operator: 'Exists' }],
      terminationGracePeriodSeconds: 10,
    });
    expect(set.updateStrategy.rollingUpdate).toEqual({ maxUnavailable: '10%' });
  });

  test('the agent has four capabilities and no way to more', () => {
    expect(agent.securityContext).toMatchObject({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'], add: ['BPF', 'NET_ADMIN', 'PERFMON', 'SYS_ADMIN'] },
    });
    expect(agent.securityContext.privileged).toBeUndefined();
    expect(agent.resources).toEqual({ requests: { cpu: '100m', memory: '96Mi' } });
  });

  test('is asked on the health port: alive by /livez, ready by /readyz', () => {
    expect(agent.livenessProbe.httpGet).toMatchObject({ path: '/livez', port: 'health' });
    for (const probe of [agent.readinessProbe, agent.startupProbe]) {
      expect(probe.httpGet).toMatchObject({ path: '/readyz', port: 'health' });
    }
    expect(agent.ports).toMatchObject([{ name: 'health', containerPort: HEALTHZ_PORT }]);
  });

  test('sees the network namespaces that container runtimes mount later', () => {
    const mounts: readonly Mount[] = agent.volumeMounts;
    expect(mounts.find(({ name }) => name === 'netns')).toEqual({
      name: 'netns',
      mountPath: '/run/netns',
      mountPropagation: 'HostToContainer',
      readOnly: true,
    });
  });

  test('mounts only volumes it has, and all of them', () => {
    const mounts: readonly Mount[] = [...agent.volumeMounts, ...prepare.volumeMounts];
    const volumes: readonly Named[] = pod.volumes;
    const names = (list: readonly Named[]): string[] =>
      [...new Set(list.map(({ name }) => name))].sort();
    expect(names(mounts)).toEqual(names(volumes));
    const path = mounts.find(({ name }) => name === 'kube-proxy')?.mountPath;
    expect(MOUNTED_KUBECONFIG).toBe(`${path}/kubeconfig.conf`);
  });
});

test('flags in manifests are flags of the program', () => {
  const known = FLAGS.map(({ flag }) => flag);
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const used = files
    .filter((path) => path.endsWith('.yaml'))
    .flatMap((path) => [...text(path).matchAll(/^ +(?:- |value: )--([a-z-]+)/gm)])
    .map((match) => match[1] ?? '');
  expect(used.length).toBeGreaterThan(3);
  expect(used.filter((flag) => !known.includes(flag))).toEqual([]);
});

test('the account is bound to kube-proxy’s role', () => {
  const account = parse(text('base/service-account.yaml'));
  const { roleRef, subjects } = parse(text('base/rights.yaml'));
  expect(roleRef).toMatchObject({ kind: 'ClusterRole', name: 'system:node-proxier' });
  expect(subjects).toMatchObject([{ kind: 'ServiceAccount', name: account.metadata.name }]);
  expect(pod.serviceAccountName).toBe(account.metadata.name);
});

test('the base lists every manifest of its folder', () => {
  const { resources } = parse(text('base/kustomization.yaml'));
  const files = readdirSync(join(folder, 'base')).filter((name) => name !== 'kustomization.yaml');
  expect([...resources].sort()).toEqual(files.sort());
});
