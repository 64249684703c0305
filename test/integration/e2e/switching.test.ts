// SPDX-License-Identifier: Apache-2.0
// kube-proxy's DaemonSet, as kubeadm installs it, is given fairlead's image, and then its own again.
import { expect, test } from 'vitest';
import { EVERYTHING, openStage } from './lab/stage.ts';
import { describeCluster } from './lab/suite.ts';
import { removeFairlead, swapBack, swapToFairlead } from './lab/swap.ts';
import { HELD_DNS_SELDOM, restart, restartDns } from './lab/workloads.ts';
import { rollOut } from './nodes/use.ts';

describeCluster(
  'kube-proxy and fairlead by an exchange of images',
  'switching',
  (parts) => openStage(parts, { proxy: 'kube-proxy' }),
  (stage, results) => {
    const programOf = (): Promise<string> =>
      stage().plane.kubectl(['-n', 'kube-system', 'logs', 'daemonset/kube-proxy', '--tail=-1']);

    test('kube-proxy serves', async () => {
      await results.scenario(
        stage(),
        'kube-proxy, nothing happens',
        EVERYTHING,
        async () => undefined,
      );
      expect(await programOf()).toContain('kube-proxy');
    });

    test('connected UDP sockets of pods, with kube-proxy', async () => {
      await results.measure(
        stage(),
        'kube-proxy: CoreDNS replaced, a connected socket with a question in 3 s',
        HELD_DNS_SELDOM,
        (stage) => restartDns(stage, 1),
      );
    });

    test('kube-proxy → fairlead', async () => {
      await results.scenario(
        stage(),
        'kube-proxy → fairlead by its image',
        EVERYTHING,
        swapToFairlead,
      );
      expect(await programOf()).toContain('"msg":"attached"');
    });

    test('fairlead serves what changes', async () => {
      await results.scenario(
        stage(),
        'rolling update of a Deployment after it',
        EVERYTHING,
        (stage) => restart(stage, 'deployment/web'),
      );
    });

    test('fairlead → kube-proxy', async () => {
      await results.scenario(
        stage(),
        'fairlead → kube-proxy by its image',
        EVERYTHING,
        async (stage) => {
          await swapBack(stage);
          await restart(stage, 'deployment/web');
        },
      );
      // The load has ended, so nothing is left to wait for.
      await removeFairlead(stage());
      await rollOut(stage(), 'daemonset/fairlead', 'kube-system');
    });
  },
);
