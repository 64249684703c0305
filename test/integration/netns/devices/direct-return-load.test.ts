// SPDX-License-Identifier: Apache-2.0
// Direct return under load: while annotations and agents change, no request fails.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunningLoad } from '../../../../src/lab/traffic.ts';
import {
  type DirectCluster,
  PORTS,
  startDirectCluster,
  VIPS,
} from '../../../support/packets/direct-return.ts';
import { until } from '../../../support/until.ts';

let cluster: DirectCluster;

beforeAll(async () => {
  cluster = await startDirectCluster();
});
afterAll(() => cluster?.stop());

/** Both families and both transports, from before `change` until after it. */
async function underLoad(change: () => Promise<void>): Promise<void> {
  const loads: RunningLoad[] = [];
  for (const protocol of ['TCP', 'UDP'] as const) {
    for (const address of VIPS) {
      const target = { protocol, address, port: PORTS[protocol] };
      loads.push(await cluster.outside.startLoad(target, { concurrency: 4, pauseMs: 5 }));
    }
  }
  const progress = async (): Promise<void> => {
    for (const load of loads) {
      const { connections } = await load.read();
      await until(async () => (await load.read()).connections > connections + 30, 'more requests');
    }
  };
  await progress();
  await change();
  await progress();
  for (const load of loads) {
    const { failures, connections } = await load.stop();
    expect(failures).toEqual([]);
    expect(connections).toBeGreaterThan(60);
  }
}

test('the annotation of the Service', async () => {
  await cluster.serve();
  await underLoad(async () => {
    for (const forwarding of ['snat', 'dsr', 'hybrid', 'dsr'] as const) {
      await cluster.serve({ forwarding });
    }
  });
});

test('the annotation of a node', async () => {
  await cluster.serve();
  await underLoad(async () => {
    for (const willing of [['n1', 'n2'], ['n1'], ['n1', 'n2', 'n3']]) {
      cluster.writeNodes(willing);
      await cluster.programmed();
    }
  });
});

test('agents of either node', async () => {
  await cluster.serve();
  await underLoad(async () => {
    await cluster.restart(0);
    await cluster.restart(1);
  });
});
