// SPDX-License-Identifier: Apache-2.0
// Direct return under load: while annotations and agents change, no request fails.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Endpoint } from '../../../../tools/lab/manifests.ts';
import { underLoad, withOpen } from '../../../support/packets/direct-load.ts';
import {
  type DirectCluster,
  PORTS,
  startDirectCluster,
  VIPS,
} from '../../../support/packets/direct-return.ts';

let cluster: DirectCluster;

beforeAll(async () => {
  cluster = await startDirectCluster();
});
afterAll(() => cluster?.stop());

test('the annotation of the Service', async () => {
  await cluster.serve();
  await underLoad(cluster, () =>
    withOpen(cluster, async (allAnswer) => {
      for (const forwarding of ['snat', 'dsr', 'hybrid', 'ipip', 'dsr'] as const) {
        await cluster.serve({ forwarding });
        await allAnswer();
      }
    }),
  );
});

/** What each step leaves: s2 and s3, which are not on the node that clients reach, take turns. */
const ROLLING = [['s2', 's3'], ['s3'], ['s3', 's2'], ['s2']] as const;

const endpointsOf = (names: readonly string[]): Endpoint[] =>
  cluster.servers.filter(({ name }) => names.includes(name)).map((pod) => ({ pod }));

test.each(['before', 'after'])(
  'a rolling update that the balancer sees %s the others fails no request, and no connection',
  async (order) => {
    const [balancer, ...others] = cluster.nodes;
    const groups = order === 'before' ? [[balancer!], others] : [others, [balancer!]];
    await cluster.serve({ endpoints: endpointsOf(['s2']) });
    const open = await Promise.all(
      VIPS.map((address) => cluster.outside.open({ protocol: 'TCP', address, port: PORTS.TCP })),
    );
    await underLoad(cluster, async (progress) => {
      for (const names of ROLLING) {
        for (const seenBy of groups) {
          await cluster.serve({ endpoints: endpointsOf(names), seenBy });
          await progress();
          for (const connection of open) {
            expect(await connection.talk('again')).toMatchObject({ backend: 's2', text: 'again' });
          }
        }
      }
    });
    for (const connection of open) await connection.close();
    const { reasons } = await balancer!.status();
    expect(reasons['DIRECT_GIVEN_BACK']).toBeGreaterThan(0);
  },
);

test('the annotation of a node', async () => {
  await cluster.serve();
  await underLoad(cluster, () =>
    withOpen(cluster, async (allAnswer) => {
      for (const willing of [['n1', 'n2'], ['n1'], ['n1', 'n2', 'n3']]) {
        cluster.writeNodes(willing);
        await cluster.programmed();
        await allAnswer();
      }
    }),
  );
});

test('agents of either node', async () => {
  await cluster.serve();
  await underLoad(cluster, async () => {
    await cluster.restart(0);
    await cluster.restart(1);
  });
});
