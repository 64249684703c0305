// SPDX-License-Identifier: Apache-2.0
// The image under deploy/kustomize/kubeadm, on a node of a real control plane: its init container, its agent with
// exactly the privileges of the manifest, its termination. And the same image in kubeadm's own DaemonSet for
// kube-proxy.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isBpffs } from '../../../src/sys/mounts.ts';
import { AT_ONCE_MS, untilHolds } from '../../support/until.ts';
import { askNode } from '../cluster/agent/launch.ts';
import { prepareCluster } from '../cluster/programs/binaries.ts';
import { type Container, startContainer } from './container.ts';
import { prepareImage } from './image.ts';
import { openStage, type Stage } from './stage.ts';

const DEPLOY = fileURLToPath(new URL('../../../deploy', import.meta.url));
const KUSTOMIZE = join(DEPLOY, 'kustomize');
const PATCH = join(DEPLOY, 'kubeadm-patch.yaml');
/** Machine-wide settings, which a node that is only a network namespace cannot write. */
const NOT_HERE = /nf_conntrack_max|oom_score_adj/;
const cluster = await prepareCluster();
const built = cluster.isReady ? await prepareImage() : cluster;

describe.skipIf(!built.isReady)('the image', () => {
  let stage: Stage;
  const started: Container[] = [];

  beforeAll(async () => {
    if (!cluster.isReady || !('image' in built)) return;
    stage = await openStage(cluster.binaries, built.image);
  }, 180_000);
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

    test('the manifests are applied without a warning', async () => {
      const applied = await stage.apply('-k', join(KUSTOMIZE, 'kubeadm'));
      expect(applied.trim().split('\n')).toEqual([
        'serviceaccount/fairlead created',
        'clusterrolebinding.rbac.authorization.k8s.io/fairlead created',
        'daemonset.apps/fairlead created',
      ]);
    });

    test('its init container mounts the bpf file system on the node and ends', async () => {
      const bpf = join(stage.host.root, 'sys/fs/bpf');
      expect(isBpffs(bpf)).toBe(false);
      const prepare = await start('fairlead', 'init');
      expect([await prepare.exited, prepare.log]).toEqual([0, expect.any(Array)]);
      expect(isBpffs(bpf)).toBe(true);
      expect(prepare.log.join('\n')).toContain('nf_conntrack_tcp_timeout_established');
      const again = await start('fairlead', 'init');
      expect(await again.exited).toBe(0);
    });

    test('its agent serves the node’s pods', async () => {
      agent = await start('fairlead', 'main');
      await agent.said('"msg":"ready"');
      await untilHolds(async () => expect(await stage.reached()).toEqual(['web-1']), 60_000);
      expect(problems(agent)).toEqual([]);
    });

    test('it answers the probes of the manifest', async () => {
      const [main] = (await stage.pod('fairlead')).spec.containers;
      const { startupProbe, readinessProbe, livenessProbe, ports } = main!;
      const port = ports![0]!.containerPort;
      for (const probe of [startupProbe, readinessProbe, livenessProbe]) {
        const { path = '' } = probe!.httpGet!;
        expect([path, await askNode(stage.node, port, path)]).toMatchObject([
          path,
          { status: 200 },
        ]);
      }
    });

    test('commands work in the container without a path', async () => {
      const status = await agent.exec('fairlead', 'status');
      expect([status.code, status.stderr]).toEqual([0, '']);
      expect(status.stdout).toContain('clientConnection.kubeconfig');
      const services = await agent.exec('fairlead', 'services');
      expect(services.stdout).toMatch(/^default +web .* 1\/1 +in sync /m);
    });

    test('it has the capabilities of the manifest and a read-only file system', async () => {
      const { stdout } = await agent.exec('cat', '/proc/1/status');
      const held = /^CapEff:\s*([0-9a-f]+)$/m.exec(stdout)?.[1];
      // NET_ADMIN, SYS_ADMIN, PERFMON, BPF by their numbers in linux/capability.h.
      const wanted = [12n, 21n, 38n, 39n].reduce((sum, bit) => sum | (1n << bit), 0n);
      expect(BigInt(`0x${held}`)).toBe(wanted);
      expect(stdout).toMatch(/^NoNewPrivs:\s*1$/m);
      const touched = await agent.exec('touch', '/opt/fairlead/new');
      expect(touched.stderr).toContain('Read-only file system');
    });

    test('SIGTERM: exits with 0 in less than a second, traffic continues, the next agent adopts its state', async () => {
      const next = await replace(agent, 'fairlead');
      await next.remove();
      expect(await stage.reached()).toEqual(['web-1']);
    });

    test('deploy/kustomize/remove removes it from the kernel', async () => {
      await stage.apply('-k', join(KUSTOMIZE, 'remove'));
      const cleanup = await start('fairlead', 'init');
      expect([await cleanup.exited, cleanup.log]).toEqual([0, expect.any(Array)]);
      expect(await stage.reached()).not.toContain('web-1');
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
