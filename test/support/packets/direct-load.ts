// SPDX-License-Identifier: Apache-2.0
// Load on a cluster for direct return while something changes: no request may fail.
import { expect } from 'vitest';
import type { RunningLoad } from '../../../tools/lab/traffic.ts';
import { until } from '../until.ts';
import { type DirectCluster, PORTS, VIPS } from './direct-return.ts';

/** Both families and both transports, from before `change` until after it. */
export async function underLoad(
  { outside }: DirectCluster,
  change: (progress: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const loads: RunningLoad[] = [];
  for (const protocol of ['TCP', 'UDP'] as const) {
    for (const address of VIPS) {
      const target = { protocol, address, port: PORTS[protocol] };
      loads.push(await outside.startLoad(target, { concurrency: 4, pauseMs: 5 }));
    }
  }
  const progress = async (): Promise<void> => {
    for (const load of loads) {
      const { connections } = await load.read();
      await until(async () => (await load.read()).connections > connections + 30, 'more requests');
    }
  };
  await progress();
  await change(progress);
  await progress();
  for (const load of loads) {
    const { failures, connections } = await load.stop();
    expect(failures).toEqual([]);
    expect(connections).toBeGreaterThan(60);
  }
}

const TCP_TARGET = { protocol: 'TCP', address: VIPS[0], port: PORTS.TCP } as const;

/** Connections to all servers, each of which answers after every step. */
export async function withOpen(
  { outside }: DirectCluster,
  act: (allAnswer: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const open = await Promise.all(Array.from({ length: 12 }, () => outside.open(TCP_TARGET)));
  await act(async () => {
    for (const connection of open) {
      expect(await connection.talk('again')).toMatchObject({ kind: 'answered', text: 'again' });
    }
  });
  for (const connection of open) await connection.close();
}
