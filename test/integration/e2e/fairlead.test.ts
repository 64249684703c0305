// SPDX-License-Identifier: Apache-2.0
// fairlead's DaemonSet on real nodes, from its image and as docs/install.md installs it: what happens to agents, under load.
import { expect, test } from 'vitest';
import {
  changeMapSizes,
  killAgents,
  restartAgents,
  starveAgents,
  stopApiServer,
} from './lab/agents.ts';
import { onAgent } from './lab/proxies.ts';
import { EVERYTHING, openStage, type Stage, WITH_HEALTH_CHECKS } from './lab/stage.ts';
import { describeCluster } from './lab/suite.ts';

describeCluster(
  'fairlead’s DaemonSet',
  'fairlead',
  (parts) => openStage(parts, { proxy: 'fairlead' }),
  (stage, results) => {
    test.each(['n1', 'n2'])(
      'serves %s by its programs, from the API server’s own address',
      async (name) => {
        const status = await onAgent(stage(), name, ['status']);
        expect(status).toContain('Source:     cluster https://192.168.78.250:6443');
        expect(status).toContain('Dataplane:  bpf, 11 hooks on /host/sys/fs/cgroup');
      },
    );

    test.each<{ what: string; action: (stage: Stage) => Promise<void> }>([
      { what: 'nothing happens', action: async () => undefined },
      { what: 'rolling update of the DaemonSet', action: restartAgents },
      {
        what: 'an update to agents that are killed for their memory, and back',
        action: starveAgents,
      },
      { what: 'sizes of maps changed', action: changeMapSizes },
    ])('$what: health checks, too', async ({ what, action }) => {
      await results.scenario(stage(), what, WITH_HEALTH_CHECKS, action);
    });

    test.each<{ what: string; action: (stage: Stage) => Promise<void> }>([
      { what: 'agents killed', action: killAgents },
      { what: 'API server away, an agent killed meanwhile', action: stopApiServer },
    ])('$what', async ({ what, action }) => {
      await results.scenario(stage(), what, EVERYTHING, action);
    });
  },
);
