// SPDX-License-Identifier: Apache-2.0
// Faults of the control plane as a client sees them: compacted history, killed, stopped and paused servers, and
// a store replaced by an empty one.
import type { V1EndpointSlice, V1Service } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { until } from '../../../support/until.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/control-plane.ts';
import { type Api, ApiError, type ListOf } from '../objects/api.ts';
import { addService, servicesPath, slicesPath } from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';

const readiness = await prepareCluster();

/** client-go's reflector, which every controller uses, backs off up to a minute after two outages. */
const CONTROLLER_BACK_MS = 90_000;
const WITH_CONTROLLER = { timeout: CONTROLLER_BACK_MS + 60_000 };

/** The first line of a watch, or its error. */
async function firstEvent(api: Api, path: string): Promise<string> {
  try {
    for await (const line of api.watch(path)) return line;
    return 'end of stream';
  } catch (error) {
    return error instanceof ApiError ? `${error.status} ${error.reason}` : 'broken';
  }
}

describe.skipIf(!readiness.isReady)('a control plane under stress', () => {
  let plane: ControlPlane;
  beforeAll(async () => {
    if (!readiness.isReady) return;
    plane = await startControlPlane(readiness.binaries);
    // A controller manager that is still starting exits when the API server is gone.
    await makesSlices('before-faults');
  });
  afterAll(() => plane?.remove());

  async function services(): Promise<{ names: string[]; version: string }> {
    const list = await plane.api.get<ListOf<V1Service>>(servicesPath());
    const names = list.items.map(({ metadata }) => metadata?.name ?? '');
    return { names, version: list.metadata.resourceVersion };
  }
  /** Checks that the real controller still works: it creates a slice for a Service with a selector. */
  async function makesSlices(service: string): Promise<void> {
    await addService(plane.api, service, { selector: { app: service } });
    await until(
      async () => {
        const { items } = await plane.api.get<ListOf<V1EndpointSlice>>(slicesPath());
        return items.some(({ metadata }) => metadata?.name?.startsWith(service));
      },
      { what: `a slice of ${service}`, timeoutMs: CONTROLLER_BACK_MS },
    );
  }
  const watchPath = (version: string) => `${servicesPath()}?watch=1&resourceVersion=${version}`;

  test('a watch from a cached resource version delivers the later events', async () => {
    const { version } = await services();
    await addService(plane.api, 'first', {});
    expect(await firstEvent(plane.api, watchPath(version))).toContain('"type":"ADDED"');
  });

  test('compaction alone does not affect the API server’s watch cache', async () => {
    const { version } = await services();
    await addService(plane.api, 'second', {});
    await plane.etcd.compact(await plane.etcd.revision());
    expect(await firstEvent(plane.api, watchPath(version))).toContain('second');
  });

  test('a watch from a compacted resource version returns 410', async () => {
    const { version } = await services();
    await addService(plane.api, 'third', {});
    const horizon = await plane.forgetHistory();
    expect(horizon).toBeGreaterThan(Number(version));
    const event = await firstEvent(plane.api, watchPath(version));
    expect(event).toContain('"code":410');
  });

  test(
    'a killed server breaks watches, refuses connections, and comes back with its objects',
    WITH_CONTROLLER,
    async () => {
      const { names, version } = await services();
      const watching = firstEvent(plane.api, watchPath(version));
      await plane.server.kill();
      expect(['broken', 'end of stream']).toContain(await watching);
      await expect(services()).rejects.toThrow();
      expect(plane.server.isRunning()).toBe(false);
      await plane.server.start();
      expect((await services()).names).toEqual(names);
      await makesSlices('after-kill');
    },
  );

  test('a paused server keeps connections open and answers once resumed', async () => {
    await plane.server.pause();
    let isAnswered = false;
    const answer = services().then(({ names }) => {
      isAnswered = true;
      return names;
    });
    try {
      await expect(until(() => isAnswered, { what: 'an answer', timeoutMs: 300 })).rejects.toThrow(
        'not within 300 ms',
      );
    } finally {
      plane.server.resume();
    }
    expect(await answer).toContain('first');
  });

  test(
    'a server with an empty store accepts the same tokens and has new resource versions and no objects',
    WITH_CONTROLLER,
    async () => {
      const { version } = await services();
      await plane.replaceStore();
      const fresh = await until(
        async () => {
          const seen = await services();
          return seen.names.includes('kubernetes') && seen;
        },
        { what: 'the Service kubernetes', timeoutMs: 60_000 },
      );
      expect(fresh.names).toEqual(['kubernetes']);
      expect(Number(fresh.version)).toBeLessThan(Number(version));
      await makesSlices('after-all');
    },
  );
});
