// SPDX-License-Identifier: Apache-2.0
// The lab itself: real nodes become Ready, run pods with addresses of their own, and leave nothing behind.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { listNamespaces } from '../../../../src/sys/netns.ts';
import { kubernetesVersion } from '../../../support/programs/kubernetes.ts';
import { clientPod, deployment } from '../lab/pods.ts';
import { prepareNodes } from '../programs.ts';
import { type RealCluster, startNodes } from './nodes.ts';
import { apply, callFrom, rollOut } from './use.ts';

const readiness = await prepareNodes();

describe.skipIf(!readiness.isReady)(
  'real nodes',
  () => {
    let cluster: RealCluster;
    beforeAll(async () => {
      if (!readiness.isReady) return;
      cluster = await startNodes(readiness.binaries, readiness.programs, ['n1', 'n2']);
    });
    afterAll(() => cluster?.remove());

    test('are Ready, with the versions that were built', async () => {
      const nodes = await cluster.plane.kubectl(['get', 'nodes', '-o', 'wide', '--no-headers']);
      const version = `v${kubernetesVersion('kubelet')}`.replaceAll('.', '\\.');
      const ready = new RegExp(`^n[12] +Ready .* ${version} .* containerd://2\\.`, 'gm');
      expect(nodes.match(ready), nodes).toHaveLength(2);
    });

    test('run pods, which clients outside reach by their own addresses, on both nodes', async () => {
      await apply(cluster, deployment('web', 4), clientPod('client'));
      await rollOut(cluster, 'deployment/web');
      const ips = await cluster.plane.kubectl([
        'get',
        'pods',
        '-l',
        'app=web',
        '-o',
        'jsonpath={.items[*].status.podIP}',
      ]);
      const answers = await Promise.all(
        ips.split(' ').map((ip) => callFrom(cluster, cluster.outside, `http://${ip}:8080/`)),
      );
      expect(new Set(answers).size).toBe(4);
      expect(answers.every((answer) => answer.startsWith('web-'))).toBe(true);
      expect(new Set(ips.split(' ').map((ip) => ip.split('.')[2]))).toEqual(new Set(['1', '2']));
    });

    test('leave nothing behind', async () => {
      const { prefix, directory } = cluster.plane;
      await cluster.remove();
      expect(listNamespaces().filter((name) => name.startsWith(prefix))).toEqual([]);
      expect(existsSync(directory)).toBe(false);
      const hierarchies = readdirSync('/sys/fs/cgroup').map((name) => join('/sys/fs/cgroup', name));
      expect(hierarchies.filter((path) => existsSync(join(path, prefix)))).toEqual([]);
    });
  },
  600_000,
);
