// SPDX-License-Identifier: Apache-2.0
// The load has the requested size and addresses and reports how long it took. To measure, set
// FAIRLEAD_LOAD_SERVICES=1000,10000 on an otherwise idle machine.
import { readFileSync } from 'node:fs';
import type { V1EndpointSlice, V1Service } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import { prepareCluster } from '../programs/binaries.ts';
import type { ListOf } from './api.ts';
import { endpointAddress, load, serviceName } from './load.ts';
import { servicesPath, slicesPath } from './objects.ts';

const readiness = await prepareCluster();
const sizes = (process.env['FAIRLEAD_LOAD_SERVICES'] ?? '200').split(',').map(Number);

describe.skipIf(!readiness.isReady)('load', () => {
  let plane: ControlPlane;
  let isFresh = true;
  beforeAll(async () => {
    if (readiness.isReady)
      plane = await startControlPlane(readiness.binaries, { controllers: 'none' });
  });
  afterAll(() => plane?.remove());

  /** CPU time of etcd, API server and relay so far: on a busy machine more meaningful than wall time. */
  function cpuSeconds(): number {
    const { cgroup } = plane.sandbox('any', plane.namespace);
    const stat = readFileSync(`${cgroup}/cpu.stat`, 'utf8');
    return Number(/^usage_usec (\d+)$/m.exec(stat)?.[1]) / 1e6;
  }

  test.each(sizes)('%i Services with 10 endpoints each', { timeout: 600_000 }, async (services) => {
    if (!isFresh) await plane.replaceStore();
    isFresh = false;
    const before = cpuSeconds();
    const { objects, elapsedMs } = await load(plane.api, { services, endpointsEach: 10 });
    expect(objects).toBe(2 * services);
    const times = `${(elapsedMs / 1000).toFixed(1)} s, ${(cpuSeconds() - before).toFixed(1)} s of CPU`;
    process.stderr.write(`load: ${services} Services x 10 in ${times}\n`);
    const list = await plane.api.get<ListOf<V1Service>>(servicesPath());
    expect(list.items).toHaveLength(services + 1); // Plus Service kubernetes.
    const last = services - 1;
    const slice = await plane.api.get<V1EndpointSlice>(`${slicesPath()}/${serviceName(last)}`);
    expect(slice.endpoints).toHaveLength(10);
    expect(slice.endpoints?.[9]?.addresses).toEqual([endpointAddress(last, 9)]);
  });
});
