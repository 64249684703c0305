// SPDX-License-Identifier: Apache-2.0
// The manifests of deploy/kustomize name what the program has: flags, paths of probes, ports, the role
// and rights its documents speak of. That an API server takes them is test/integration/cluster/agent/rights.test.ts's.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { HEALTHZ_PORT } from '../../../src/config/addresses.ts';
import { FLAGS } from '../../../src/config/flags/flags.ts';
import { DEFAULT_RUN_DIR } from '../../../src/config/instance-paths.ts';
import { MOUNTED_KUBECONFIG } from '../../../src/source/apiserver/transport/api-server.ts';
import { parseYaml } from '../../support/yaml.ts';

const root = new URL('../../..', import.meta.url).pathname;
const folder = join(root, 'deploy/kustomize');
const text = (path: string): string => readFileSync(join(folder, path), 'utf8');
const { spec: set, metadata } = parseYaml(text('base/daemon-set.yaml'));
const pod = set.template.spec;
const [agent] = pod.containers;
/** The values that a component's patch adds. */
const added = (name: string): readonly { readonly path: string; readonly value: Component }[] =>
  parseYaml(parseYaml(text(`components/${name}/kustomization.yaml`)).patches[0].patch);

interface Named {
  readonly name: string;
}
interface Mount extends Named {
  readonly mountPath: string;
}
interface Component {
  readonly volumeMounts: readonly Mount[];
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
  });

  test('is updated by agents that take over: two on a node share its ports, and each says itself when it is ready', () => {
    expect(set.updateStrategy.rollingUpdate).toEqual({ maxSurge: '10%', maxUnavailable: 0 });
    expect(agent.ports).toBeUndefined();
    const mount = agent.volumeMounts.find(({ name }: Named) => name === 'ready').mountPath;
    expect(agent.args).toEqual(
      expect.arrayContaining(['--take-over', `--ready-file=${mount}/agent`]),
    );
    expect(agent.startupProbe.exec.command).toEqual(['cat', `${mount}/agent`]);
    expect(pod.volumes).toContainEqual({
      name: 'ready',
      emptyDir: { medium: 'Memory', sizeLimit: '1Mi' },
    });
    expect(pod.volumes).toContainEqual({
      name: 'run',
      hostPath: { path: DEFAULT_RUN_DIR, type: 'DirectoryOrCreate' },
    });
  });

  test('is removed after its agent has ended, which holds what is removed', () => {
    const [{ patch }] = parseYaml(text('remove/kustomization.yaml')).patches;
    expect(parseYaml(patch)).toContainEqual({
      op: 'replace',
      path: '/spec/updateStrategy/rollingUpdate',
      value: { maxSurge: 0, maxUnavailable: '100%' },
    });
  });

  test('is removed once another proxy serves, and fails with the exit code of the command', () => {
    const [{ patch }] = parseYaml(text('remove/kustomization.yaml')).patches;
    expect(parseYaml(patch)).toContainEqual({
      op: 'replace',
      path: '/spec/template/spec/containers/0/args',
      value: ['while fairlead cleanup --drain --wait-for-proxy=5m || exit; do sleep 30; done'],
    });
  });

  test('nothing is privileged: four capabilities, the runtime’s seccomp profile, a read-only root', () => {
    expect(pod.initContainers).toBeUndefined();
    expect(agent.securityContext).toMatchObject({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      seccompProfile: { type: 'RuntimeDefault' },
      capabilities: { drop: ['ALL'], add: ['BPF', 'NET_ADMIN', 'NET_RAW', 'PERFMON'] },
    });
    expect(agent.securityContext.privileged).toBeUndefined();
    expect(agent.resources).toEqual({ requests: { cpu: '100m', memory: '96Mi' } });
  });

  test('is asked on the health port: alive by /livez, ready by /readyz', () => {
    expect(agent.livenessProbe.httpGet).toMatchObject({ path: '/livez', port: HEALTHZ_PORT });
    expect(agent.readinessProbe.httpGet).toMatchObject({ path: '/readyz', port: HEALTHZ_PORT });
  });

  test('shares the lock of iptables with the node', () => {
    expect(pod.volumes).toContainEqual({
      name: 'xtables-lock',
      hostPath: { path: '/run/xtables.lock', type: 'FileOrCreate' },
    });
  });

  test('mounts only volumes it has, and all of them', () => {
    const mounts: readonly Mount[] = agent.volumeMounts;
    const volumes: readonly Named[] = pod.volumes;
    const names = (list: readonly Named[]): string[] =>
      [...new Set(list.map(({ name }) => name))].sort();
    expect(names(mounts)).toEqual(names(volumes));
    const path = mounts.find(({ name }) => name === 'kube-proxy')?.mountPath;
    expect(MOUNTED_KUBECONFIG).toBe(`${path}/kubeconfig.conf`);
  });
});

test('the component destroy-stale-sockets sees the network namespaces that container runtimes mount later', () => {
  expect(added('destroy-stale-sockets').map(({ value }) => value)).toEqual([
    'SYS_ADMIN',
    { name: 'netns', mountPath: '/run/netns', mountPropagation: 'HostToContainer', readOnly: true },
    { name: 'netns', hostPath: { path: '/run/netns', type: 'DirectoryOrCreate' } },
  ]);
});

test('the component connect-stale-sockets sees the processes of the node', () => {
  expect(
    added('connect-stale-sockets').map(({ path, value }) => [path.split('/').at(-2), value]),
  ).toEqual([
    ['spec', true],
    ['add', 'SYS_PTRACE'],
  ]);
});

test('the component direct-return-secret mounts the file that its flag names, as it changes', () => {
  const [flag, mount, volume] = added('direct-return-secret').map(({ value }) => value);
  const { mountPath } = mount as unknown as Mount;
  expect(flag).toBe(`--direct-return-secret-file=${mountPath}/secrets`);
  expect(mount).toEqual({ name: 'direct-return', mountPath, readOnly: true });
  const secret = { secretName: 'fairlead-direct-return', defaultMode: 0o400 };
  expect(volume).toEqual({ name: 'direct-return', secret });
});

test('what the CNI has is read from the node', () => {
  const path = '/etc/cni/net.d';
  expect(agent.volumeMounts).toContainEqual({ name: 'cni', mountPath: path, readOnly: true });
  expect(pod.volumes).toContainEqual({
    name: 'cni',
    hostPath: { path, type: 'DirectoryOrCreate' },
  });
});

test('the component prepare-node mounts only volumes of the base', () => {
  const [init] = added('prepare-node')[0]!.value as unknown as readonly Component[];
  const volumes: readonly Named[] = pod.volumes;
  const names = volumes.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(init!.volumeMounts.map(({ name }) => name)));
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
  const account = parseYaml(text('base/service-account.yaml'));
  const { roleRef, subjects } = parseYaml(text('base/rights.yaml'));
  expect(roleRef).toMatchObject({ kind: 'ClusterRole', name: 'system:node-proxier' });
  expect(subjects).toMatchObject([{ kind: 'ServiceAccount', name: account.metadata.name }]);
  expect(pod.serviceAccountName).toBe(account.metadata.name);
});

test('the base lists every manifest of its folder', () => {
  const { resources } = parseYaml(text('base/kustomization.yaml'));
  const files = readdirSync(join(folder, 'base')).filter((name) => name !== 'kustomization.yaml');
  expect([...resources].sort()).toEqual(files.sort());
});
