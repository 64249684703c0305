// SPDX-License-Identifier: Apache-2.0
// What users do to their own pods while fairlead serves them, under load.
import { expect, test } from 'vitest';
import { restartAgents } from './lab/agents.ts';
import type { Load } from './lab/load.ts';
import { applyFairlead } from './lab/proxies.ts';
import type { Row } from './lab/results.ts';
import { EVERYTHING, openStage } from './lab/stage.ts';
import { describeCluster } from './lab/suite.ts';
import * as workloads from './lab/workloads.ts';

describeCluster(
  'pods behind fairlead',
  'workloads',
  (parts) => openStage(parts, { proxy: 'fairlead' }),
  (stage, results) => {
    test('rolling update of a Deployment', async () => {
      await results.scenario(stage(), 'rolling update of a Deployment', EVERYTHING, (stage) =>
        workloads.restart(stage, 'deployment/web'),
      );
    });

    test('a StatefulSet by the names of its pods', async () => {
      const load = await workloads.addDatabase(stage());
      await results.scenario(
        stage(),
        'names of a StatefulSet, agents replaced',
        load,
        restartAgents,
      );
    });

    test('an ingress behind a LoadBalancer Service', async () => {
      const load = await workloads.addIngress(stage());
      await results.scenario(
        stage(),
        'ingress behind a load balancer, it and its servers replaced',
        load,
        async (stage) => {
          await workloads.restart(stage, 'deployment/ingress');
          await workloads.restart(stage, 'deployment/web');
        },
      );
    });

    test('CoreDNS is replaced in a loop', async () => {
      await results.scenario(
        stage(),
        'CoreDNS replaced 3 times, a socket each',
        workloads.DNS_LOAD,
        (stage) => workloads.restartDns(stage, 3),
      );
    });

    test('a drained node', async () => {
      await results.scenario(stage(), 'node drained', workloads.withoutHeld(EVERYTHING), (stage) =>
        workloads.drain(stage, 'n2'),
      );
    });

    test('programs with connected UDP sockets are told that CoreDNS is another one', async () => {
      const measure = (what: string, load: Load): Promise<Row> =>
        results.measure(stage(), `CoreDNS replaced, ${what}`, load, (stage) =>
          workloads.restartDns(stage, 1),
        );
      await measure('a connected socket with 20 questions a second', workloads.HELD_DNS_OFTEN);
      const refused = await measure(
        'a connected socket with a question in 3 s',
        workloads.HELD_DNS_SELDOM,
      );
      // Two clients with a socket each: without a refusal every question fails from then on.
      expect(refused.failed).toBeLessThanOrEqual(4);
      await applyFairlead(stage(), { components: ['destroy-stale-sockets'] });
      const component = 'with destroy-stale-sockets';
      await measure(`20 questions a second, ${component}`, workloads.HELD_DNS_OFTEN);
      const seldom = await measure(`a question in 3 s, ${component}`, workloads.HELD_DNS_SELDOM);
      // A destroyed socket says so at once: nothing waits.
      expect(seldom.longestMs).toBeLessThan(5_000);
    });
  },
);
