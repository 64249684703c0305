// SPDX-License-Identifier: Apache-2.0
// The image under deploy/kustomize/kubeadm, on a node of a real control plane: its agent, its termination, its removal; the init
// container of the component prepare-node. And the same image in kubeadm's own DaemonSet for kube-proxy.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isBpffs } from '../../../src/sys/mounts.ts';
import { getInSandbox } from '../../support/http/get.ts';
import { AT_ONCE_MS, untilHolds } from '../../support/until.ts';
import { prepareCluster } from '../cluster/programs/binaries.ts';
import { type Container, startContainer } from './container.ts';
import { prepareRunnable } from './image.ts';
import { openStage, type Stage } from './stage.ts';

const DEPLOY = fileURLToPath(new URL('../../../deploy', import.meta.url));
const KUSTOMIZE = join(DEPLOY, 'kustomize');
const PATCH = join(DEPLOY, 'kubeadm-patch.yaml');
/** Machine-wide settings, which a node that is only a network namespace cannot write. */
const NOT_HERE = /nf_conntrack_max|oom_score_adj/;
const cluster = await prepareCluster();
const built = cluster.isReady ? await prepareRunnable() : cluster;

describe.skipIf(!built.isReady)('the image', () => {
  let stage: Stage;
  const started: Container[] = [];

  beforeAll(async () => {
    if (!cluster.isReady || !('image' in built)) return;
    stage = await openStage(cluster.binaries, built.image);
  });
  afterAll(async () => {
    await Promise.all(started.map((container) => container.remove()));
    await stage?.remove();
  });

  async function start(daemonSet: string, part: 'init' | 'main'): Promise<Container> {
    const [spec] = (await stage.pod(daemonSet))[part];
    const container = await startContainer(stage.machine, spec!);
    started.push(container);
    return container;
  }
  const problems = (container: Container): string[] =>
    container.log.filter((line) => /"level":"(warn|error)"/.test(line) && !NOT_HERE.test(line));

  /** SIGTERM under traffic: it exits in time, and the next agent adopts its state. */
  async function replace(container: Container, daemonSet: string): Promise<Container> {
    const load = await stage.node.client().startLoad(stage.web);
    const atMs = performance.now();
    await container.signal('TERM');
    expect(await container.exited).toBe(0);
    expect(performance.now() - atMs).toBeLessThan(AT_ONCE_MS);
    expect(await stage.reached()).toEqual(['web-1']);
    const next = await start(daemonSet, 'main');
    await next.said('"msg":"ready"');
    const { failures, connections } = await load.stop();
    expect(failures).toEqual([]);
    expect(connections).toBeGreaterThan(50);
    return next;
  }

  describe('under deploy/kustomize/kubeadm', () => {
    let agent: Container;

    /** A kustomization as docs/install.md shows it, of this overlay and component. */
    function kustomization(overlay: string, component: string): string {
      const folder = join(stage.host.directory, `${overlay}-${component}`);
      mkdirSync(folder, { recursive: true });
      const to = (path: string): string => relative(folder, join(KUSTOMIZE, path));
      const lines = [
        'apiVersion: kustomize.config.k8s.io/v1beta1',
        'kind: Kustomization',
        `resources: [${to(overlay)}]`,
        `components: [${to(`components/${component}`)}]`,
      ];
      writeFileSync(join(folder, 'kustomization.yaml'), `${lines.join('\n')}\n`);
      return folder;
    }

    test('the manifests are applied without a warning', async () => {
      const applied = await stage.apply('-k', kustomization('kubeadm', 'prepare-node'));
      expect(applied.trim().split('\n')).toEqual([
        'serviceaccount/fairlead created',
        'clusterrolebinding.rbac.authorization.k8s.io/fairlead created',
        'daemonset.apps/fairlead created',
      ]);
    });

    test('the init container of prepare-node mounts the bpf file system on the node and ends', async () => {
      const bpf = join(stage.host.root, 'sys/fs/bpf');
      expect(isBpffs(bpf)).toBe(false);
      const prepare = await start('fairlead', 'init');
      expect([await prepare.exited, prepare.log]).toEqual([0, expect.any(Array)]);
      expect(isBpffs(bpf)).toBe(true);
      expect(prepare.log.join('\n')).toContain('nf_conntrack_tcp_timeout_established');
      const again = await start('fairlead', 'init');
      expect(await again.exited).toBe(0);
    });

    test('without privileges its agent serves the node’s pods', async () => {
      await stage.apply('-k', join(KUSTOMIZE, 'kubeadm'));
      expect((await stage.pod('fairlead')).init).toEqual([]);
      agent = await start('fairlead', 'main');
      await agent.said('"msg":"ready"');
      await untilHolds(async () => expect(await stage.reached()).toEqual(['web-1']), 60_000);
      expect(problems(agent)).toEqual([]);
    });

    test('it answers the probes of the manifest', async () => {
      const [main] = (await stage.pod('fairlead')).spec.containers;
      const { startupProbe, readinessProbe, livenessProbe } = main!;
      for (const probe of [readinessProbe, livenessProbe]) {
        const { path = '', port } = probe!.httpGet!;
        expect([
          path,
          await getInSandbox(stage.node.instance.sandbox, Number(port), path),
        ]).toMatchObject([path, { status: 200 }]);
      }
      const started = await agent.exec(...startupProbe!.exec!.command!);
      expect([started.code, started.stderr]).toEqual([0, '']);
    });

    test('commands work in the container without a path', async () => {
      const status = await agent.exec('fairlead', 'status');
      expect([status.code, status.stderr]).toEqual([0, '']);
      expect(status.stdout).toContain('clientConnection.kubeconfig');
      const services = await agent.exec('fairlead', 'services');
      expect(services.stdout).toMatch(/^default +web .* 1\/1 +in sync /m);
    });

    test('SIGTERM: exits with 0 in less than a second, traffic continues, the next agent adopts its state', async () => {
      const next = await replace(agent, 'fairlead');
      await next.remove();
      expect(await stage.reached()).toEqual(['web-1']);
    });

    test('deploy/kustomize/remove removes it from the kernel, and is ready when nothing is left', async () => {
      await stage.apply('-k', join(KUSTOMIZE, 'remove'));
      // No other proxy serves here, and it would wait for one.
      const path = '/spec/template/spec/containers/0/args/0';
      const value =
        'while fairlead cleanup --drain --wait-for-proxy=none || exit; do sleep 30; done';
      const patch = JSON.stringify([{ op: 'replace', path, value }]);
      const daemonSet = ['-n', 'kube-system', 'patch', 'daemonset', 'fairlead'];
      await stage.plane.kubectl([...daemonSet, '--type', 'json', '-p', patch]);
      const { main, spec } = await stage.pod('fairlead');
      expect(main).toHaveLength(1);
      const removal = await start('fairlead', 'main');
      const isRemoved = spec.containers[0]!.readinessProbe!.exec!.command!;
      await untilHolds(async () => expect((await removal.exec(...isRemoved)).code).toBe(0), 60_000);
      expect(await stage.reached()).not.toContain('web-1');
      await removal.signal('TERM');
      expect(await removal.exited).toBe(0);
      await stage.plane.kubectl(['delete', '-k', join(KUSTOMIZE, 'remove')]);
    });
  });

  describe('where kubeadm’s DaemonSet starts kube-proxy', () => {
    const patch = (...args: readonly string[]): Promise<string> =>
      stage.plane.kubectl(['-n', 'kube-system', ...args]);

    test('replacing the image is enough to start it and serve', async () => {
      await patch('set', 'image', 'daemonset/kube-proxy', 'kube-proxy=fairlead:0.1.0');
      const agent = await start('kube-proxy', 'main');
      await agent.said('"msg":"ready"');
      await untilHolds(async () => expect(await stage.reached()).toEqual(['web-1']), 60_000);
      expect(problems(agent)).toEqual([]);
      await agent.remove();
      // As docs/install.md warns: its pins were in the container.
      expect(await stage.reached()).not.toContain('web-1');
    });

    test('with deploy/kubeadm-patch.yaml traffic continues while it is replaced', async () => {
      await patch('patch', 'daemonset', 'kube-proxy', '--patch-file', PATCH);
      const agent = await start('kube-proxy', 'main');
      await agent.said('"msg":"ready"');
      await untilHolds(async () => expect(await stage.reached()).toEqual(['web-1']), 60_000);
      const next = await replace(agent, 'kube-proxy');
      expect(problems(next)).toEqual([]);
      expect((await next.exec('fairlead', 'status')).code).toBe(0);
    });
  });
});
