// SPDX-License-Identifier: Apache-2.0
// The Helm chart, by the real helm: what it renders, that an API server accepts it, that it means what deploy/kustomize means,
// and one clear line for a value that is wrong.
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { run } from '../../../src/sys/exec.ts';
import { CHART, helmTemplate, prepareHelm } from '../../support/programs/helm.ts';
import { parseYamls } from '../../support/yaml.ts';
import { type ControlPlane, startControlPlane } from '../cluster/control-plane/control-plane.ts';
import { prepareCluster } from '../cluster/programs/binaries.ts';
import { installMonitoringKinds } from './monitoring-kinds.ts';

const cluster = await prepareCluster();
const helm = cluster.isReady ? await prepareHelm() : cluster;
const KUSTOMIZE = fileURLToPath(new URL('../../../deploy/kustomize', import.meta.url));

const MONITORING = [
  'metricsAddress=0.0.0.0',
  'podMonitor.enabled=true',
  'prometheusRule.enabled=true',
  'dashboard.enabled=true',
];
const PRIVILEGES = ['prepareNode', 'destroyStaleSockets', 'connectStaleSockets'];
/** Name of the golden file -> values. */
const CASES: Readonly<Record<string, readonly string[]>> = {
  default: [],
  beside: ['mode=beside'],
  /** Of what takes more privileges it has nothing. */
  shadow: [
    ...['mode=shadow', 'kubeProxyConfig=true', 'directReturnSecret=s'],
    ...PRIVILEGES.map((name) => `privileges.${name}=true`),
  ],
  switch: ['mode=replace', 'kubeProxyConfig=true', 'switchAnyway=true'],
  kubeadm: [
    'kubeProxyConfig=true',
    'image.repository=registry.example/fairlead',
    'image.tag=0.2.0',
  ],
  privileges: [
    ...PRIVILEGES.map((name) => `privileges.${name}=true`),
    'cniConfDir=/var/lib/rancher/k3s/agent/etc/cni/net.d',
  ],
  'direct-return': ['privileges.directReturn=true', 'directReturnSecret=fairlead-direct-return'],
  monitoring: MONITORING,
  nftables: ['engine=nftables'],
  /** Neither root nor a capability. */
  userspace: ['engine=userspace'],
  remove: ['mode=remove', 'privileges.prepareNode=true'],
};

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec?: { readonly template: { readonly spec: Record<string, unknown> } };
}

const podOf = (text: string): Record<string, unknown> => {
  const objects = parseYamls<Manifest>(text);
  return objects.find(({ kind }) => kind === 'DaemonSet')!.spec!.template.spec;
};

describe.skipIf(!helm.isReady)('the chart', () => {
  let plane: ControlPlane;
  const program = 'program' in helm ? helm.program : '';
  const rendered = async (values: readonly string[]): Promise<string> => {
    const set = values.flatMap((value) => ['--set', value]);
    const { code, stdout, stderr } = await helmTemplate(program, ...set);
    expect([code, stderr]).toEqual([0, '']);
    return stdout;
  };

  beforeAll(async () => {
    if (!cluster.isReady || !helm.isReady) return;
    plane = await startControlPlane(cluster.binaries);
    await installMonitoringKinds(plane);
  });
  afterAll(() => plane?.remove());

  test('helm lint --strict has nothing to say but that there is no icon', async () => {
    const { code, stdout } = await run(program, ['lint', '--strict', CHART]);
    const lines = stdout.split('\n').filter((line) => /^\[/.test(line));
    expect([code, lines]).toEqual([0, ['[INFO] Chart.yaml: icon is recommended']]);
  });

  test.each(Object.entries(CASES))('%s: rendered as in its golden file', async (name, values) => {
    // The dashboard has a golden file of its own.
    const text = (await rendered(values)).replace(/^( {2}fairlead\.json: ).*$/m, '$1…');
    await expect(text).toMatchFileSnapshot(`goldens/${name}.yaml`);
  });

  test('every golden file is of a case', () => {
    const files = readdirSync(new URL('goldens', import.meta.url));
    expect(files.sort()).toEqual(
      Object.keys(CASES)
        .map((name) => `${name}.yaml`)
        .sort(),
    );
  });

  test.each(Object.entries(CASES))('%s: an API server accepts it', async (_name, values) => {
    const dryRun = ['--server-side', '--dry-run=server', '--validate=strict', '-f', '-'];
    const applied = await plane.kubectl(['apply', ...dryRun], await rendered(values));
    expect(applied).toMatch(/^daemonset\.apps\/fairlead serverside-applied/m);
    expect(applied).not.toMatch(/warning/i);
  });

  test.each([
    ['kubeadm', ['kubeProxyConfig=true']],
    ['beside-kube-proxy', ['mode=beside']],
    ['remove', ['mode=remove']],
  ])('its Pod is that of deploy/kustomize/%s', async (name, values) => {
    const wanted = podOf(await plane.kubectl(['kustomize', `${KUSTOMIZE}/${name}`]));
    const [pod, kustomized] = [podOf(await rendered(values)), wanted].map(withoutArgs);
    expect(pod).toEqual(kustomized);
  });

  test.each([
    ['ports.health=abc', "at '/ports/health': got string, want integer"],
    ['privileges.prepareNode=maybe', "at '/privileges/prepareNode': got string, want boolean"],
    ['image.repository=5', "at '/image/repository': got number, want string"],
    ['mode=instead', "at '/mode': value must be one of 'shadow', 'replace', 'beside', 'remove'"],
    ['waitForProxy=0s', "at '/waitForProxy': '0s' does not match"],
    ['waitForProxy=soon', "at '/waitForProxy': 'soon' does not match"],
    ['engine=ipvs', "at '/engine': value must be one of 'auto', 'bpf', 'iptables'"],
    ['apiServers={http://10.0.0.1}', "at '/apiServers/0': 'http://10.0.0.1' does not match"],
    ['hostNetwork=false', "at '': additional properties 'hostNetwork' not allowed"],
    ['podMonitor.enabled=true', 'podMonitor.enabled needs metricsAddress: 0.0.0.0'],
    ['engine=userspace,privileges.prepareNode=true', 'engine: userspace has no privileges'],
    ['kubeProxyConfig=true,mode=beside', 'kubeProxyConfig: true is for mode: replace'],
    ['kubeProxyConfig=true,clusterCIDR=10.0.0.0/8', 'set them in the ConfigMap kube-proxy'],
  ])('%s: %s', async (value, line) => {
    const { code, stderr } = await helmTemplate(program, '--set', value);
    expect(code).toBe(1);
    expect(stderr.split('\n').filter((each) => each.includes(line))).toHaveLength(1);
  });
});

/** The order of flags, and flags that only repeat a default, are no difference. */
function withoutArgs(pod: Record<string, unknown>): Record<string, unknown> {
  const containers = (pod['containers'] as readonly Record<string, unknown>[]).map((container) => ({
    ...container,
    args: (container['args'] as readonly string[])
      .filter((arg) => !/^--(engine=auto|metrics-bind-address=127.0.0.1:10249)$/.test(arg))
      .sort(),
    imagePullPolicy: undefined,
  }));
  return { ...pod, containers };
}
