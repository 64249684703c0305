// SPDX-License-Identifier: Apache-2.0
// healthCheckNodePort servers: the bytes of the answer, where they listen, and how they follow the plan.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { HealthCheck, Plan, ServicePlan } from '../../../../src/plan/types.ts';
import {
  bindAddressesOf,
  serviceHealthResponse,
} from '../../../../src/server/health/service-response.ts';
import {
  createServiceHealthServers,
  type ServiceHealthFailure,
  type ServiceHealthParts,
} from '../../../../src/server/health/service-servers.ts';
import { type Listen, type Listener, listenOnce } from '../../../../src/server/http/listen.ts';
import type { Schedule } from '../../../../src/server/http/retry-listen.ts';
import { until } from '../../../support/until.ts';
import { ask } from '../http/ask.ts';

test('the body is what load balancers have always seen: tabs, no newline at the end', () => {
  const answer = serviceHealthResponse({
    namespace: 'ns',
    name: 'svc',
    localEndpoints: 1,
    isProxyHealthy: true,
  });
  expect(answer.body).toBe(
    '{\n\t"service": {\n\t\t"namespace": "ns",\n\t\t"name": "svc"\n\t},\n\t"localEndpoints": 1,\n\t"serviceProxyHealthy": true\n}',
  );
  expect(answer.headers).toEqual({
    'Content-Type': 'application/json',
    'X-Content-Type-Options': 'nosniff',
    'X-Load-Balancing-Endpoint-Weight': '1',
  });
});

test.each([
  [1, true, 200],
  [0, true, 503],
  [1, false, 503],
  [0, false, 503],
])('%d local endpoints with a proxy healthy %s: %d', (localEndpoints, isProxyHealthy, status) => {
  const health = { namespace: 'n', name: 's', localEndpoints, isProxyHealthy };
  expect(serviceHealthResponse(health).status).toBe(status);
});

describe('where it listens', () => {
  const both: HealthCheck = {
    port: 1,
    families: ['IPv4', 'IPv6'],
    localEndpoints: { IPv4: 0, IPv6: 0 },
  };
  const only4: HealthCheck = { ...both, families: ['IPv4'] };
  const own = ['10.0.0.2', '10.0.0.1', '127.0.0.1', 'fd00::1', '10.0.0.1'];
  const rows: readonly (readonly [
    string,
    HealthCheck,
    Plan['nodePortAddresses'],
    readonly string[] | undefined,
    readonly string[],
  ])[] = [
    [
      'on all addresses of both families',
      both,
      { IPv4: 'all', IPv6: 'all' },
      own,
      ['0.0.0.0', '::'],
    ],
    ['in the families of the Service alone', only4, { IPv4: 'all', IPv6: 'all' }, own, ['0.0.0.0']],
    [
      'on each own address that is accepted',
      both,
      { IPv4: ['10.0.0.0/8'], IPv6: 'all' },
      own,
      ['10.0.0.1', '10.0.0.2', '::'],
    ],
    [
      'nowhere if no own address is accepted',
      only4,
      { IPv4: ['11.0.0.0/8'], IPv6: 'all' },
      own,
      [],
    ],
    [
      'on all if own addresses cannot be found out',
      only4,
      { IPv4: ['10.0.0.0/8'], IPv6: 'all' },
      undefined,
      ['0.0.0.0'],
    ],
  ];
  test.each(rows)('%s', (_, healthCheck, accepted, addresses, hosts) => {
    expect(bindAddressesOf(healthCheck, accepted, addresses).map(({ host }) => host)).toEqual(
      hosts,
    );
  });
});

describe('following the plan', () => {
  const open: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close();
  });

  async function freePort(): Promise<number> {
    const listener = await listenOnce({ host: '127.0.0.1', port: 0, onRequest: () => {} });
    await listener.close();
    return listener.port;
  }

  async function taken(host = '127.0.0.1', port = 0): Promise<Listener> {
    const listener = await listenOnce({ host, port, onRequest: () => {} });
    open.push(listener);
    return listener;
  }

  const service = (name: string, port: number, localEndpoints: number): ServicePlan => ({
    namespace: 'ns',
    name,
    type: 'LoadBalancer',
    ports: [],
    healthCheck: { port, families: ['IPv4'], localEndpoints: { IPv4: localEndpoints, IPv6: 0 } },
  });

  const planOf = (...services: readonly ServicePlan[]) => ({
    services: new Map(services.map((one) => [`${one.namespace}/${one.name}`, one])),
    nodePortAddresses: { IPv4: ['127.0.0.0/8'], IPv6: 'all' } as const,
  });

  let retries: { readonly run: () => void; readonly afterMs: number }[];
  const schedule: Schedule = (run, afterMs) => {
    const retry = { run, afterMs };
    retries.push(retry);
    return () => {
      retries = retries.filter((one) => one !== retry);
    };
  };
  let gate: Promise<void> | undefined;
  beforeEach(() => {
    retries = [];
    gate = undefined;
  });

  function servers(parts: Partial<ServiceHealthParts> = {}) {
    const failures: ServiceHealthFailure[] = [];
    const recovered: object[] = [];
    const all: ServiceHealthParts = {
      isProxyHealthy: () => true,
      localAddresses: () => ['127.0.0.1'],
      onFailure: (failure) => failures.push(failure),
      onRecovery: (service) => recovered.push(service),
      ...parts,
    };
    const listen: Listen = async (options) => {
      await gate;
      return listenOnce(options);
    };
    const made = createServiceHealthServers(all, listen, schedule);
    open.push(made);
    return { ...bound(made), failures, recovered };
  }
  const bound = (made: ReturnType<typeof createServiceHealthServers>) => ({
    sync: (plan: Parameters<typeof made.sync>[0], changed = [...plan.services.keys(), 'ns/a']) =>
      made.sync(plan, changed),
    close: made.close.bind(made),
    synced: made.synced.bind(made),
    open: made.open.bind(made),
  });

  test('answers any path and method from the last sync, and asks for the proxy health each time', async () => {
    const port = await freePort();
    let isProxyHealthy = true;
    const { sync } = servers({ isProxyHealthy: () => isProxyHealthy });
    await sync(planOf(service('a', port, 2)));
    const first = await ask(port, '/any/path', { method: 'PUT' });
    expect(first.status).toBe(200);
    expect(first.headers['x-load-balancing-endpoint-weight']).toBe('2');
    await sync(planOf(service('a', port, 0)));
    expect((await ask(port, '/')).status).toBe(503);
    await sync(planOf(service('a', port, 1)));
    isProxyHealthy = false;
    const last = await ask(port, '/');
    expect(last.status).toBe(503);
    expect(JSON.parse(last.body)).toEqual({
      service: { namespace: 'ns', name: 'a' },
      localEndpoints: 1,
      serviceProxyHealthy: false,
    });
  });

  test('a port goes with its Service, and can be another Service’s in the same sync', async () => {
    const port = await freePort();
    const { sync, open: ports, failures, recovered } = servers();
    await sync(planOf(service('a', port, 1)));
    await sync(planOf(service('b', port, 1)));
    expect(JSON.parse((await ask(port, '/')).body)).toMatchObject({ service: { name: 'b' } });
    expect([...ports()]).toEqual([['ns/b', port]]);
    await sync(planOf());
    await expect(ask(port, '/')).rejects.toThrow(/ECONNREFUSED/);
    expect([failures, recovered]).toEqual([[], []]);
  });

  test('a Service is looked at when it changed; those known to have a port at each sync', async () => {
    const port = await freePort();
    const { sync, open: ports } = servers();
    await sync(planOf(service('a', port, 1)), []);
    expect(ports().size).toBe(0);
    await sync(planOf(service('a', port, 1)), ['ns/a']);
    expect(ports().size).toBe(1);
    await sync(planOf(), []);
    expect(ports().size).toBe(0);
  });

  test('a Service whose port changes moves', async () => {
    const [before, after] = [await freePort(), await freePort()];
    const { sync } = servers();
    await sync(planOf(service('a', before, 1)));
    await sync(planOf(service('a', after, 1)));
    expect((await ask(after, '/')).status).toBe(200);
    await expect(ask(before, '/')).rejects.toThrow(/ECONNREFUSED/);
  });

  test('a taken port is a failure that names it, leaves others alone, and is retried at each sync', async () => {
    const other = await taken();
    const port = await freePort();
    const { sync, failures, open: ports } = servers();
    const plan = planOf(service('a', other.port, 1), service('b', port, 1));
    await sync(plan);
    expect((await ask(port, '/')).status).toBe(200);
    expect(failures).toEqual([
      {
        namespace: 'ns',
        name: 'a',
        port: other.port,
        reason: expect.stringMatching(/^127\.0\.0\.1:\d+: the port is in use/) as string,
        isRepeated: false,
      },
    ]);
    await sync(plan);
    expect(failures.map(({ isRepeated }) => isRepeated)).toEqual([false, true]);
    await other.close();
    await sync(plan);
    expect(failures).toHaveLength(2);
    expect([...ports().keys()].sort()).toEqual(['ns/a', 'ns/b']);
  });

  describe('a taken port if no sync comes', () => {
    /** Of Service a. */
    async function onTakenPort() {
      const other = await taken();
      const made = servers();
      const plan = planOf(service('a', other.port, 1));
      await made.sync(plan);
      expect(retries.map(({ afterMs }) => afterMs)).toEqual([30_000]);
      const retry = async (): Promise<void> => {
        for (const { run } of retries.splice(0)) run();
        await made.synced();
      };
      return { ...made, other, plan, retry };
    }

    test('is retried until it is free', async () => {
      const { other, retry, failures, recovered, open: ports } = await onTakenPort();
      await retry();
      expect(failures.map(({ isRepeated }) => isRepeated)).toEqual([false, true]);
      expect(recovered).toEqual([]);
      await other.close();
      await retry();
      expect([...ports().keys()]).toEqual(['ns/a']);
      expect(recovered).toEqual([{ namespace: 'ns', name: 'a', port: other.port }]);
      expect(retries).toEqual([]);
    });

    test('is retried as of the last sync, whatever the plan has become', async () => {
      const { other, retry, plan, open: ports } = await onTakenPort();
      plan.services.clear();
      await other.close();
      await retry();
      expect([...ports().keys()]).toEqual(['ns/a']);
    });

    type Made = Awaited<ReturnType<typeof onTakenPort>>;
    /** Comes while it binds for a sync or a retry. */
    const during =
      (begin: (made: Made) => void, end: (made: Made) => Promise<void>) => async (made: Made) => {
        let bind = (): void => {};
        gate = new Promise((resolve) => {
          bind = resolve;
        });
        begin(made);
        await new Promise(setImmediate);
        const ended = end(made);
        bind();
        await ended;
      };
    const sync = ({ sync, plan }: Made): void => void sync(plan);
    const retry = ({ retry }: Made): void => void retry();
    const without = (made: Made): Promise<void> => made.sync(planOf());
    const closed = ({ close }: Made): Promise<void> => close();

    test.each<[string, (made: Made) => Promise<void>]>([
      ['its Service is gone', without],
      ['its Service goes during a sync', during(sync, without)],
      ['its Service goes during a retry', during(retry, without)],
      ['it is closed', closed],
      ['it is closed during a sync', during(sync, closed)],
      ['it is closed during a retry', during(retry, closed)],
    ])('is not retried when %s', async (_, end) => {
      await end(await onTakenPort());
      expect(retries).toEqual([]);
    });

    test('is retried after a retry that failed otherwise, and synced, too', async () => {
      const { other, sync, plan, failures, open: ports } = await onTakenPort();
      failures.push = () => {
        throw new Error('another failure');
      };
      for (const { run } of retries.splice(0)) run();
      await until(() => retries.length === 1, 'the next retry');
      await other.close();
      await sync(plan);
      expect([...ports().keys()]).toEqual(['ns/a']);
    });
  });

  test('all addresses of a Service or none', async () => {
    const other = await taken('127.0.0.2');
    const { sync, failures } = servers({ localAddresses: () => ['127.0.0.1', '127.0.0.2'] });
    await sync(planOf(service('a', other.port, 1)));
    expect(failures).toHaveLength(1);
    await expect(ask(other.port, '/')).rejects.toThrow(/ECONNREFUSED/);
  });

  test('a kernel without IPv6 serves IPv4 all the same', async () => {
    const { port, close } = await listenOnce({ host: '127.0.0.1', port: 0, onRequest: () => {} });
    await close();
    const failures: ServiceHealthFailure[] = [];
    const made = createServiceHealthServers(
      {
        isProxyHealthy: () => true,
        localAddresses: () => ['127.0.0.1'],
        onFailure: (failure) => failures.push(failure),
        onRecovery: () => {},
      },
      (options) => {
        const cause = Object.assign(new Error('no'), { code: 'EAFNOSUPPORT' });
        return options.isIpv6Only
          ? Promise.reject(new Error('v6', { cause }))
          : listenOnce(options);
      },
    );
    open.push(made);
    const { healthCheck, ...rest } = service('a', port, 1);
    const families = ['IPv4', 'IPv6'] as const;
    const plan = planOf({ ...rest, healthCheck: { ...healthCheck!, families } });
    await made.sync(plan, plan.services.keys());
    expect((await ask(port, '/')).status).toBe(200);
    expect(failures).toEqual([]);
  });

  test('new addresses of the node are listened on', async () => {
    const port = await freePort();
    let local = ['127.0.0.1'];
    const { sync } = servers({ localAddresses: () => local });
    await sync(planOf(service('a', port, 1)));
    local = ['127.0.0.1', '127.0.0.2'];
    await sync(planOf(service('a', port, 1)));
    expect((await ask(port, '/', { host: '127.0.0.2' })).status).toBe(200);
  });

  test('syncs that overlap are done one after the other; a closed one stays closed', async () => {
    const port = await freePort();
    const { sync, close, open: ports, failures } = servers();
    const plan = planOf(service('a', port, 1));
    void sync(plan);
    void sync(planOf());
    void sync(plan);
    await close();
    await sync(plan);
    await close();
    expect([...ports()]).toEqual([]);
    expect(failures).toEqual([]);
    await expect(ask(port, '/')).rejects.toThrow(/ECONNREFUSED/);
  });
});
