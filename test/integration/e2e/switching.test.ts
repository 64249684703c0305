// SPDX-License-Identifier: Apache-2.0
// kube-proxy's DaemonSet, as kubeadm installs it, is given fairlead's image, and then its own again.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { prepareProxyImages } from './lab/archives.ts';
import { openResults } from './lab/results.ts';
import { EVERYTHING, openStage, type Stage } from './lab/stage.ts';
import { removeFairlead, swapBack, swapToFairlead } from './lab/swap.ts';
import { HELD_DNS_SELDOM, restartDns } from './lab/workloads.ts';
import { rollOut } from './nodes/use.ts';
import { prepareNodes } from './programs.ts';

const nodes = await prepareNodes();
const proxies = nodes.isReady ? await prepareProxyImages(nodes.binaries.kubeProxy) : nodes;

describe.skipIf(!proxies.isReady)(
  'kube-proxy and fairlead by an exchange of images',
  () => {
    let stage: Stage;
    const results = openResults('switching');
    beforeAll(async () => {
      if (!nodes.isReady || !proxies.isReady) return;
      stage = await openStage(nodes.binaries, nodes.programs, proxies.images, {
        proxy: 'kube-proxy',
      });
    }, 600_000);
    afterAll(async () => {
      results.save();
      await stage?.remove();
    });

    const programOf = (): Promise<string> =>
      stage.plane.kubectl(['-n', 'kube-system', 'logs', 'daemonset/kube-proxy', '--tail=-1']);

    test('kube-proxy serves', async () => {
      await results.scenario(
        stage,
        'kube-proxy, nothing happens',
        EVERYTHING,
        async () => undefined,
      );
      expect(await programOf()).toContain('kube-proxy');
    });

    test('connected UDP sockets of pods, with kube-proxy', async () => {
      await results.measure(
        stage,
        'kube-proxy: CoreDNS replaced, a connected socket with a question in 3 s',
        HELD_DNS_SELDOM,
        () => restartDns(stage, 1),
      );
    });

    test('kube-proxy → fairlead', async () => {
      await results.scenario(stage, 'kube-proxy → fairlead by its image', EVERYTHING, () =>
        swapToFairlead(stage),
      );
      expect(await programOf()).toContain('"msg":"attached"');
    });

    test('fairlead serves what changes', async () => {
      await results.scenario(
        stage,
        'rolling update of a Deployment after it',
        EVERYTHING,
        async () => {
          await stage.plane.kubectl(['rollout', 'restart', 'deployment/web']);
          await rollOut(stage, 'deployment/web');
        },
      );
    });

    test('fairlead → kube-proxy', async () => {
      await results.scenario(stage, 'fairlead → kube-proxy by its image', EVERYTHING, async () => {
        await swapBack(stage);
        await stage.plane.kubectl(['rollout', 'restart', 'deployment/web']);
        await rollOut(stage, 'deployment/web');
      });
      // The load has ended, so nothing is left to wait for.
      await removeFairlead(stage);
      await rollOut(stage, 'daemonset/fairlead', 'kube-system');
    });
  },
  900_000,
);
