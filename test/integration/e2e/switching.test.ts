// SPDX-License-Identifier: Apache-2.0
// kube-proxy's DaemonSet, as kubeadm installs it, is given fairlead's image, and then its own again; then fairlead's own DaemonSet takes
// its place, and leaves it.
import { expect, test } from 'vitest';
import { until } from '../../support/until.ts';
import { onAgent } from './lab/proxies.ts';
import { EVERYTHING, openStage } from './lab/stage.ts';
import { describeCluster } from './lab/suite.ts';
import { goBack, replaceKubeProxy, swapToFairlead } from './lab/swap.ts';
import { HELD_DNS_SELDOM, restart, restartDns, untilOldDnsIsGone } from './lab/workloads.ts';
import { rollOut } from './nodes/use.ts';

describeCluster(
  'from kube-proxy to fairlead and back',
  'switching',
  (parts) => openStage(parts, { proxy: 'kube-proxy' }),
  (stage, results) => {
    const kubectl = (...args: readonly string[]): Promise<string> =>
      stage().plane.kubectl(['-n', 'kube-system', ...args]);
    const programsServe = async (daemonSet: string): Promise<void> => {
      for (const { name } of stage().nodes) {
        const status = await onAgent(stage(), name, ['status'], daemonSet);
        expect(status).toContain('Dataplane:  bpf, 11 hooks on /host/sys/fs/cgroup');
      }
    };
    /** After a load has ended: as docs/install.md says, without a wait for UDP flows. */
    const removeRest = async (): Promise<void> => {
      for (const { name } of stage().nodes) {
        const what = `the agent of ${name} has ended, and what it left is removed`;
        await until(() => onAgent(stage(), name, ['cleanup']), { what, timeoutMs: 60_000 });
      }
      await rollOut(stage(), 'daemonset/fairlead', 'kube-system');
      await kubectl('delete', 'daemonset/fairlead');
    };

    test('kube-proxy serves', async () => {
      await results.scenario(
        stage(),
        'kube-proxy, nothing happens',
        EVERYTHING,
        async () => undefined,
      );
      expect(await kubectl('logs', 'daemonset/kube-proxy', '--tail=-1')).toContain('kube-proxy');
    });

    test('connected UDP sockets of pods, with kube-proxy', async () => {
      await results.measure(
        stage(),
        'kube-proxy: CoreDNS replaced, a connected socket with a question in 3 s',
        HELD_DNS_SELDOM,
        async (stage) => {
          await restartDns(stage, 1);
          // The questions after it take longer than kube-proxy's next sync: no entry of these Pods is left when it is replaced.
          await untilOldDnsIsGone(stage);
        },
      );
    });

    test('kube-proxy → fairlead', async () => {
      await results.scenario(
        stage(),
        'kube-proxy → fairlead by its image',
        EVERYTHING,
        swapToFairlead,
      );
      await programsServe('kube-proxy');
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
          await goBack(stage);
          await restart(stage, 'deployment/web');
        },
      );
      await removeRest();
    });

    test('kube-proxy → fairlead’s own DaemonSet', async () => {
      await results.scenario(
        stage(),
        'kube-proxy → fairlead by a DaemonSet in its place',
        EVERYTHING,
        async (stage) => {
          await replaceKubeProxy(stage);
          await restart(stage, 'deployment/web');
        },
      );
      await programsServe('fairlead');
    });

    test('fairlead’s own DaemonSet → kube-proxy', async () => {
      await results.scenario(
        stage(),
        'fairlead → kube-proxy by their DaemonSets',
        EVERYTHING,
        async (stage) => {
          await goBack(stage);
          await restart(stage, 'deployment/web');
        },
      );
      await removeRest();
    });
  },
);
