// SPDX-License-Identifier: Apache-2.0
// fairlead is replaced by a build whose maps all have another layout, and by the one before it again, under load.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NEXT_TAG, prepareProxyImages } from './lab/archives.ts';
import { applyFairlead } from './lab/proxies.ts';
import { openResults } from './lab/results.ts';
import { EVERYTHING, openStage, type Stage, WITH_HEALTH_CHECKS } from './lab/stage.ts';
import { restart } from './lab/workloads.ts';
import { prepareNodes } from './programs.ts';

const nodes = await prepareNodes();
const proxies = nodes.isReady ? await prepareProxyImages(nodes.binaries.kubeProxy) : nodes;

describe.skipIf(!proxies.isReady)(
  'another layout of all maps',
  () => {
    let stage: Stage;
    const results = openResults('upgrade');
    beforeAll(async () => {
      if (!nodes.isReady || !proxies.isReady) return;
      stage = await openStage(nodes.binaries, nodes.programs, proxies.images, {
        proxy: 'fairlead',
      });
      for (const node of stage.nodes) await node.importImage(proxies.images.next);
    }, 600_000);
    afterAll(async () => {
      results.save();
      await stage?.remove();
    });

    test.each([
      { what: 'upgrade to another layout of all maps', tag: NEXT_TAG, pin: 'fl_service_v2' },
      { what: 'downgrade from it', tag: '0.1.0', pin: 'fl_service' },
    ])('$what', async ({ what, tag, pin }) => {
      await results.scenario(stage, what, WITH_HEALTH_CHECKS, () => applyFairlead(stage, { tag }));
      for (const node of stage.nodes) {
        const find = [
          'find',
          '/sys/fs/bpf/fairlead',
          '-type',
          'f',
          '-name',
          'fl_service*',
          '-printf',
          '%f ',
        ];
        expect((await node.run(find)).stdout.trim()).toBe(pin);
      }
    });

    test('what changes is served by the migrated maps', async () => {
      await results.scenario(stage, 'rolling update of a Deployment after both', EVERYTHING, () =>
        restart(stage, 'deployment/web'),
      );
    });
  },
  900_000,
);
