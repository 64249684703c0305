// SPDX-License-Identifier: Apache-2.0
// The commands of README.md, docs/install.md and docs/install/, as they stand there, by kubectl and helm on a real control plane with kubeadm's
// objects: what each makes of the cluster, and that the way back leaves nothing. There is no node, so that every rollout is complete.
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { V1DaemonSet, V1PodSpec } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { run } from '../../../src/sys/exec.ts';
import { kubeadmObjects } from '../../support/kubeadm/objects.ts';
import { prepareHelm } from '../../support/programs/helm.ts';
import { untilHolds } from '../../support/until.ts';
import { type ControlPlane, startControlPlane } from '../cluster/control-plane/control-plane.ts';
import { prepareCluster } from '../cluster/programs/binaries.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const INSTALL = read('docs/install.md');
const page = (platform: string): string => read(`docs/install/${platform}.md`);
const README = read('README.md');
const IMAGE = 'registry.example/fairlead:0.1.0';
/** They say that they have done it. */
const ELSEWHERE = ['systemctl', 'kind', 'aws'];
/** Files of a node, and nodes, of which there are none here. */
const NOT_HERE = /\/etc\/rancher|kubectl label node/;
const COMPONENTS = ['prepare-node', 'destroy-stale-sockets'];
const cluster = await prepareCluster();
const helm = cluster.isReady ? await prepareHelm() : cluster;

/** The commands below a heading, up to the next one. */
function commandsOf(text: string, heading: string): readonly string[] {
  const [, section] = text.split(new RegExp(`^#+ ${heading}$`, 'm'));
  if (section === undefined) throw new Error(`no heading ${heading}`);
  const [own = ''] = section.split(/^#+ /m);
  return [...own.matchAll(/^```\n(.*?)^```$/gms)].map(([, block = '']) => block);
}

describe.skipIf(!helm.isReady)('the commands of the documents', () => {
  let plane: ControlPlane;
  let checkout: string;
  let before: V1PodSpec;

  beforeAll(async () => {
    if (!cluster.isReady || !('program' in helm)) return;
    plane = await startControlPlane(cluster.binaries, { controllers: 'all' });
    checkout = join(plane.directory, 'checkout');
    const bin = join(checkout, 'bin');
    mkdirSync(bin, { recursive: true });
    symlinkSync(join(ROOT, 'deploy'), join(checkout, 'deploy'));
    symlinkSync(cluster.binaries.kubectl, join(bin, 'kubectl'));
    symlinkSync(helm.program, join(bin, 'helm'));
    for (const name of ELSEWHERE) {
      writeFileSync(join(bin, name), '#!/bin/sh\necho https://api.example:443\n', { mode: 0o755 });
    }
    await plane.kubectl(['create', '-f', '-'], kubeadmObjects(plane.server.nodeUrl));
    before = await podOf('kube-proxy');
    // Where `rollout undo` goes back to.
    await untilHolds(async () => {
      const known = await plane.kubectl([
        '-n',
        'kube-system',
        'rollout',
        'history',
        'ds/kube-proxy',
      ]);
      expect(known).toMatch(/^1 /m);
    });
    await execute(commandsOf(INSTALL, 'Which overlay')[0]!);
  });
  afterAll(() => plane?.remove());

  async function execute(block: string): Promise<void> {
    const lines = block.split('\n').filter((line) => !NOT_HERE.test(line));
    const env = [
      `PATH=${join(checkout, 'bin')}:${process.env['PATH']}`,
      `KUBECONFIG=${plane.kubeconfig({ identity: 'admin', from: 'here' })}`,
      'KUBECTL_KUBERC=false',
      `HOME=${checkout}`,
    ];
    const script = `set -e\ncd ${checkout}\n${lines.join('\n')}`;
    const { code, stdout, stderr } = await run('env', [...env, 'bash', '-c', script], {
      timeoutMs: 120_000,
    });
    expect([code, stderr, /warning/i.exec(stdout)], stdout).toEqual([0, '', null]);
  }
  const daemonSets = async (): Promise<readonly V1DaemonSet[]> => {
    const path = '/apis/apps/v1/namespaces/kube-system/daemonsets';
    return (await plane.api.get<{ readonly items: readonly V1DaemonSet[] }>(path)).items;
  };
  async function podOf(name: string): Promise<V1PodSpec> {
    const found = (await daemonSets()).find(({ metadata }) => metadata?.name === name);
    if (found?.spec?.template.spec === undefined) throw new Error(`no DaemonSet ${name}`);
    return found.spec.template.spec;
  }
  const imageOf = async (name: string): Promise<string | undefined> =>
    (await podOf(name)).containers[0]!.image;

  test.each([
    ['README.md: Install it in a cluster', README, 'Install it in a cluster', false],
    ['beside kube-proxy', page('beside'), 'Beside kube-proxy', true],
    ['kubeadm', page('kubeadm'), 'kubeadm', false],
    ['EKS', page('managed'), 'EKS and other managed clusters', false],
    ['k3s', page('k3s'), 'k3s', true],
    ['Helm', page('helm'), 'Helm', true],
  ])('%s, and back', async (_name, text, heading, hasKubeProxy) => {
    const [install, back, ...more] = commandsOf(text, heading);
    expect(more).toEqual([]);
    await execute(install!);
    expect(await imageOf('fairlead')).toBe(IMAGE);
    const isThere = (await podOf('kube-proxy')).nodeSelector?.['no-such-node'] === undefined;
    expect(isThere).toBe(hasKubeProxy);
    await execute(back!);
    expect((await daemonSets()).map(({ metadata }) => metadata?.name)).toEqual(['kube-proxy']);
    expect(await podOf('kube-proxy')).toEqual(before);
  });

  test('kind, which has no way back', async () => {
    const [install, ...more] = commandsOf(page('kind'), 'kind');
    expect(more).toEqual([]);
    await execute(install!);
    expect(await imageOf('fairlead')).toBe(IMAGE);
    await execute('kubectl delete -k my/kind');
  });

  test('canary, and back', async () => {
    const [install, back, end, ...more] = commandsOf(page('beside'), 'On some nodes first');
    expect(more).toEqual([]);
    await execute(install!);
    expect((await podOf('fairlead')).nodeSelector).toMatchObject({ 'fairlead.io/proxy': 'true' });
    expect((await podOf('kube-proxy')).affinity?.nodeAffinity).toBeDefined();
    await execute(back!);
    expect(await imageOf('fairlead-remove')).toBe(IMAGE);
    await execute(end!);
    expect((await daemonSets()).map(({ metadata }) => metadata?.name)).toEqual(['kube-proxy']);
    expect(await podOf('kube-proxy')).toEqual(before);
  });

  test('kube-proxy’s own DaemonSet, and back', async () => {
    const [install, back] = commandsOf(page('kubeadm'), "In kube-proxy's own DaemonSet");
    await execute(install!);
    expect(await imageOf('kube-proxy')).toBe('fairlead:0.1.0');
    await execute(back!);
    expect(await podOf('kube-proxy')).toEqual(before);
    expect(await daemonSets()).toHaveLength(1);
  });

  test.each(['kubeadm', 'k3s', 'kind', 'beside-kube-proxy', 'canary'])(
    'an API server accepts the overlay %s with each component',
    async (overlay) => {
      for (const component of COMPONENTS) {
        // kind has it already.
        if (overlay === 'kind' && component === 'prepare-node') continue;
        const folder = join(checkout, 'my', `${overlay}-${component}`);
        mkdirSync(folder, { recursive: true });
        const text = `resources: [../${overlay}]\ncomponents: [../../deploy/kustomize/components/${component}]\n`;
        writeFileSync(join(folder, 'kustomization.yaml'), text);
        const rendered = await plane.kubectl(['kustomize', folder]);
        const dryRun = ['--server-side', '--dry-run=server', '--validate=strict', '-f', '-'];
        const applied = await plane.kubectl(['apply', ...dryRun], rendered);
        expect(applied).toMatch(/^daemonset\.apps\/fairlead serverside-applied/m);
      }
    },
  );
});
