// SPDX-License-Identifier: Apache-2.0
// fairlead is replaced by a build whose maps all have another layout, and by the one before it again, under load.
import { expect, test } from 'vitest';
import { NEXT_TAG } from './lab/archives.ts';
import { applyFairlead } from './lab/proxies.ts';
import { EVERYTHING, openStage, WITH_HEALTH_CHECKS } from './lab/stage.ts';
import { describeCluster } from './lab/suite.ts';
import { restart } from './lab/workloads.ts';

describeCluster(
  'another layout of all maps',
  'upgrade',
  async (parts) => {
    const stage = await openStage(parts, { proxy: 'fairlead' });
    for (const node of stage.nodes) await node.importImage(parts.images.next);
    return stage;
  },
  (stage, results) => {
    test.each([
      { what: 'upgrade to another layout of all maps', tag: NEXT_TAG, pin: 'fl_service_v2' },
      { what: 'downgrade from it', tag: '0.1.0', pin: 'fl_service' },
    ])('$what', async ({ what, tag, pin }) => {
      await results.scenario(stage(), what, WITH_HEALTH_CHECKS, (stage) =>
        applyFairlead(stage, { tag }),
      );
      for (const node of stage().nodes) {
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
      await results.scenario(
        stage(),
        'rolling update of a Deployment after both',
        EVERYTHING,
        (stage) => restart(stage, 'deployment/web'),
      );
    });
  },
);
