// SPDX-License-Identifier: Apache-2.0
// The page of metrics, the series getters become, and the server that shows them.
import { afterEach, describe, expect, test } from 'vitest';
import { BPF, bpfCapabilities, IPTABLES } from '../../../../src/engines/capabilities.ts';
import { limitationsOf } from '../../../../src/engines/limitations.ts';
import type { Backend, Frontend, Plan, ServicePlan } from '../../../../src/plan/types.ts';
import { type Listener, listenOnce } from '../../../../src/server/http/listen.ts';
import { PROGRAMMING_BUCKETS, SYNC_BUCKETS } from '../../../../src/server/metrics/metric-rows.ts';
import { createMetrics } from '../../../../src/server/metrics/metrics.ts';
import {
  type MetricReaders,
  noLocalEndpoints,
  type ServerReaders,
  type ServiceConnections,
  type ServiceTraffic,
} from '../../../../src/server/metrics/readings.ts';
import { metricsHandler } from '../../../../src/server/metrics/server.ts';
import { until } from '../../../support/until.ts';
import { ask, type Heard } from '../http/ask.ts';
import { agentReaders } from '../readers.ts';

const SERVER_READERS: ServerReaders = {
  isNodeEligible: () => false,
  pendingChanges: () => ({ services: 0, endpoints: 0 }),
  listening: () => ({}),
  serviceHealthPorts: () => 0,
  isReloadNeeded: () => false,
  events: () => ({ failed: 0, dropped: 0 }),
};
const OPTIONS = { hasProcess: false, nowMs: () => 1_700_000_000_500 };

const fail = (): void => undefined;
const metricsOf = (
  readers: Partial<MetricReaders> = {},
  onFailure: (metric: string) => void = fail,
) => createMetrics({ ...agentReaders(), ...SERVER_READERS, ...readers }, onFailure, OPTIONS);

/** Lines of the page that are series and begin so. */
async function series(metrics: Pick<ReturnType<typeof metricsOf>, 'text'>, name: string) {
  const page = await metrics.text();
  return page.split('\n').filter((line) => line.startsWith(name));
}

test("buckets are kube-proxy's", () => {
  expect(SYNC_BUCKETS).toEqual([
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
  ]);
  expect(PROGRAMMING_BUCKETS).toHaveLength(2 + 59 + 12 + 7);
  expect(PROGRAMMING_BUCKETS.slice(0, 4)).toEqual([0.25, 0.5, 1, 2]);
  expect(PROGRAMMING_BUCKETS.slice(59, 64)).toEqual([58, 59, 60, 65, 70]);
  expect(PROGRAMMING_BUCKETS.slice(-8)).toEqual([115, 120, 150, 180, 210, 240, 270, 300]);
});

describe('what is told', () => {
  test('a full sync that succeeds, a partial one that does not', async () => {
    const metrics = metricsOf();
    metrics.syncAsked('IPv4');
    metrics.synced({ family: 'IPv4', isFull: true, durationMs: 3, failed: 0 });
    metrics.synced({ family: 'IPv6', isFull: false, durationMs: 3, failed: 2 });
    expect(await series(metrics, 'kubeproxy_sync_proxy_rules_duration_seconds_count')).toEqual([
      'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1',
      'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv6"} 1',
    ]);
    const page = await metrics.text();
    for (const line of [
      'kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.002",ip_family="IPv4"} 0',
      'kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.004",ip_family="IPv4"} 1',
      'kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1',
      'kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv6"} 1',
      'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1700000000.5',
      'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1700000000.5',
      'fairlead_update_errors_total 2',
    ]) {
      expect(page).toContain(`${line}\n`);
    }
    expect(page).not.toContain('last_timestamp_seconds{ip_family="IPv6"}');
    expect(page).not.toContain('full_proxy_rules_duration_seconds_count{ip_family="IPv6"}');
  });

  test('changes, probes, requests and the time to the kernel', async () => {
    const metrics = metricsOf();
    metrics.arrived('Service', 2);
    metrics.arrived('EndpointSlice', 3);
    metrics.arrived('Node', 4);
    metrics.responded('healthz', 503);
    metrics.responded('livez', 200);
    metrics.programmed('IPv4', 700);
    metrics.programmed('IPv4', -5);
    metrics.conntrackCleaned({ family: 'IPv6', durationMs: 30, deleted: 0 });
    metrics.conntrackCleaned({ family: 'IPv6', durationMs: 10, deleted: 3 });
    metrics.requested({ method: 'GET', host: 'h:6443', code: '200', durationMs: 20 });
    const page = await metrics.text();
    for (const line of [
      'kubeproxy_sync_proxy_rules_service_changes_total 2',
      'kubeproxy_sync_proxy_rules_endpoint_changes_total 3',
      'kubeproxy_proxy_healthz_total{code="503"} 1',
      'kubeproxy_proxy_livez_total{code="200"} 1',
      'kubeproxy_network_programming_duration_seconds_bucket{le="0.25",ip_family="IPv4"} 1',
      'kubeproxy_network_programming_duration_seconds_bucket{le="1",ip_family="IPv4"} 2',
      'kubeproxy_network_programming_duration_seconds_sum{ip_family="IPv4"} 0.7',
      'kubeproxy_conntrack_reconciler_sync_duration_seconds_sum{ip_family="IPv6"} 0.04',
      'kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv6"} 2',
      'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv6"} 3',
      'rest_client_requests_total{code="200",method="GET",host="h:6443"} 1',
      'rest_client_request_duration_seconds_sum{verb="GET",host="h:6443"} 0.02',
    ]) {
      expect(page).toContain(`${line}\n`);
    }
  });
});

describe('what is read', () => {
  const plan = {
    services: new Map(),
    rejections: [
      { object: { kind: 'Service', namespace: 'a', name: 'b' }, field: '', reason: '' },
      { object: { kind: 'Service', namespace: 'a', name: 'c' }, field: '', reason: '' },
    ],
  } as unknown as Plan;
  const rows: readonly (readonly [
    readers: Partial<MetricReaders>,
    name: string,
    lines: readonly string[],
  ])[] = [
    [{}, 'fairlead_build_info', [`{version="1.2.3",node_version="${process.version}"} 1`]],
    [{ engine: () => 'bpf' }, 'fairlead_dataplane_info', ['{dataplane="bpf"} 1']],
    [{ engine: () => undefined }, 'fairlead_dataplane_info', []],
    [
      { limitations: () => limitationsOf(IPTABLES) },
      'fairlead_dataplane_limitation',
      ['COUNTERS', 'BYPASS', 'AFFINITY_CLIENTS', 'ALGORITHMS', 'DIRECT_RETURN'].map(
        (code) => `{dataplane="iptables",code="${code}"} 1`,
      ),
    ],
    [{ limitations: () => limitationsOf(BPF) }, 'fairlead_dataplane_limitation', []],
    [
      {
        limitations: () => limitationsOf(bpfCapabilities({ packets: true, knowsNode: false })),
      },
      'fairlead_dataplane_limitation',
      ['{dataplane="bpf",code="NODE_SOCKETS"} 1'],
    ],
    [{ isReady: () => true }, 'fairlead_ready', [' 1']],
    [{ isNodeEligible: () => false }, 'fairlead_node_eligible', [' 0']],
    [{ plan: () => plan }, 'fairlead_services', [' 0']],
    [
      {
        plan: () => plan,
        sourceProblems: () => [
          { file: 'a.yaml', reason: 'not YAML' },
          { reason: 'refused', kinds: 'all' },
          { reason: 'twice', object: { kind: 'Node', namespace: '', name: 'n1' } },
        ],
      },
      'fairlead_rejected_inputs',
      [
        '{kind="Service"} 2',
        '{kind="EndpointSlice"} 0',
        '{kind="Node"} 1',
        '{kind="ServiceCIDR"} 0',
        '{kind="Manifest"} 1',
      ],
    ],
    [
      { tables: () => [{ name: 'fl_frontend4', used: 3, capacity: 9 }] },
      'fairlead_map_',
      ['entries{map="fl_frontend4"} 3', 'max_entries{map="fl_frontend4"} 9'],
    ],
    [
      {
        earlyPaths: () => [
          { by: 'XDP', device: 'eth0', state: 'on', reason: '', sent: 70, lost: 3 },
        ],
      },
      'fairlead_xdp_',
      [
        'device{device="eth0",state="on"} 1',
        'sent_frames_total{device="eth0"} 70',
        'lost_frames_total{device="eth0"} 3',
      ],
    ],
    [{ failedEntries: () => 2 }, 'fairlead_failed_entries', [' 2']],
    [{ driftTotal: () => 5 }, 'fairlead_drift_total', [' 5']],
    [{ lastAuditAt: () => new Date(1500) }, 'fairlead_last_audit_timestamp_seconds', [' 1.5']],
    [
      { watchAgesMs: () => ({ Service: 1500 }) },
      'fairlead_watch_last_activity_timestamp_seconds',
      ['{kind="Service"} 1699999999'],
    ],
    [
      { reasons: () => ({ TRANSLATED: 7 }) },
      'fairlead_outcomes_total',
      ['{reason="TRANSLATED"} 7'],
    ],
    [
      { listening: () => ({ healthz: true, metrics: false }) },
      'fairlead_listening',
      ['{server="healthz"} 1', '{server="metrics"} 0'],
    ],
    [{ serviceHealthPorts: () => 4 }, 'fairlead_service_health_ports', [' 4']],
    [{ isReloadNeeded: () => true }, 'fairlead_config_reload_needed', [' 1']],
    [
      { events: () => ({ failed: 1, dropped: 2 }) },
      'fairlead_event',
      ['_failures_total 1', 's_dropped_total 2'],
    ],
    [
      { pendingChanges: () => ({ services: 1, endpoints: 2 }) },
      'kubeproxy_sync_proxy_rules_service_changes_pending',
      [' 1'],
    ],
    [
      { pendingChanges: () => ({ services: 1, endpoints: 2 }) },
      'kubeproxy_sync_proxy_rules_endpoint_changes_pending',
      [' 2'],
    ],
  ];
  test.each(rows)('%o gives %s', async (readers, name, lines) => {
    const found = await series(metricsOf(readers), name);
    expect(found).toEqual(lines.map((line) => name + line));
  });

  test('a counter that is read shows the value read, page after page', async () => {
    let drift = 5;
    const metrics = metricsOf({ driftTotal: () => drift });
    await metrics.text();
    drift = 6;
    expect(await series(metrics, 'fairlead_drift_total')).toEqual(['fairlead_drift_total 6']);
  });

  test('series that are gone leave the page', async () => {
    let tables = [{ name: 'a', used: 1, capacity: 2 }];
    const metrics = metricsOf({ tables: () => tables });
    await metrics.text();
    tables = [];
    expect(await series(metrics, 'fairlead_map_entries{')).toEqual([]);
  });

  test('a getter that throws leaves out its metric and is reported once; the page stays', async () => {
    const failed: string[] = [];
    const metrics = metricsOf(
      {
        isReady: () => true,
        tables: () => {
          throw new Error('kernel');
        },
      },
      (metric) => failed.push(metric),
    );
    await metrics.text();
    const page = await metrics.text();
    expect(page).toContain('fairlead_ready 1\n');
    expect(page).not.toContain('fairlead_map_entries{');
    expect(failed).toEqual(['fairlead_map_entries', 'fairlead_map_max_entries']);
  });

  const connections = (service: string, count: number): ServiceConnections => ({
    namespace: 'n',
    service,
    port: 'http',
    protocol: 'TCP',
    family: 'IPv4',
    connections: count,
    ...{ refused: 0, dropped: 0 },
  });
  test.each([
    [0, []],
    [2, ['c', 'a']],
    [9, ['c', 'a', 'b']],
  ])('of the Services only the %d busiest are shown', async (topServices, names) => {
    const all = [connections('a', 5), connections('b', 1), connections('c', 9)];
    const metrics = metricsOf({ serviceConnections: () => all, topServices });
    const found = await series(metrics, 'fairlead_service_connections_total');
    expect(found.map((line) => /service="(.)"/.exec(line)?.[1])).toEqual(names);
  });

  test('connections that were refused or dropped, of the Services with most of them', async () => {
    const all = [
      { ...connections('a', 900), refused: 3 },
      { ...connections('b', 0), refused: 2, dropped: 2 },
    ];
    const metrics = metricsOf({ serviceConnections: () => all, topServices: 1 });
    const labels = 'namespace="n",service="b",port="http",protocol="TCP",ip_family="IPv4"';
    expect(await series(metrics, 'fairlead_service_unserved_total')).toEqual([
      `fairlead_service_unserved_total{${labels},verdict="refused"} 2`,
      `fairlead_service_unserved_total{${labels},verdict="dropped"} 2`,
    ]);
  });

  test('packets and bytes of the Services with the most bytes, each way', async () => {
    const traffic = (service: string, bytes: number): ServiceTraffic => ({
      ...{ namespace: 'n', service, port: 'http', protocol: 'UDP', family: 'IPv6' },
      toBackend: { packets: 3, bytes },
      toClient: { packets: 2, bytes: 10 * bytes },
    });
    const all = [traffic('a', 100), traffic('b', 200)];
    const metrics = metricsOf({ serviceTraffic: () => all, topServices: 1 });
    const labels = 'namespace="n",service="b",port="http",protocol="UDP",ip_family="IPv6"';
    expect(await series(metrics, 'fairlead_service_packets_total')).toEqual([
      `fairlead_service_packets_total{${labels},direction="to_backend"} 3`,
      `fairlead_service_packets_total{${labels},direction="to_client"} 2`,
    ]);
    expect(await series(metrics, 'fairlead_service_bytes_total')).toEqual([
      `fairlead_service_bytes_total{${labels},direction="to_backend"} 200`,
      `fairlead_service_bytes_total{${labels},direction="to_client"} 2000`,
    ]);
    const unread = { [Symbol.iterator]: () => expect.unreachable('no Service is shown') };
    const untold = metricsOf({ serviceTraffic: () => unread });
    expect(await series(untold, 'fairlead_service_bytes_total')).toEqual([]);
  });
});

test('ports without local endpoints are counted by policy, once a port', () => {
  const backend = {} as Backend;
  const frontend = (kind: Frontend['kind'], scope: 'local' | 'cluster') =>
    ({ kind, rules: { outside: { scope } } }) as Frontend;
  const port = (serving: number, local: number, ...frontends: Frontend[]) => ({
    family: 'IPv4',
    serving: Array.from({ length: serving }, () => backend),
    local: Array.from({ length: local }, () => backend),
    frontends,
  });
  const ports = [
    port(1, 0, frontend('NodePort', 'local'), frontend('LoadBalancer', 'local')),
    port(1, 0, frontend('ClusterIP', 'local')),
    port(1, 0, frontend('ClusterIP', 'cluster')),
    port(1, 1, frontend('NodePort', 'local')),
    port(0, 0, frontend('NodePort', 'local')),
  ];
  const services = new Map([['a/b', { ports } as unknown as ServicePlan]]);
  const counts = noLocalEndpoints({ services }).map(
    ({ labels, value }) => `${labels['traffic_policy']} ${labels['ip_family']} ${value}`,
  );
  expect(counts).toEqual([
    'internal IPv4 1',
    'internal IPv6 0',
    'external IPv4 1',
    'external IPv6 0',
  ]);
});

test('the process families are there if they are asked for, with a coarse lag of the event loop', async () => {
  const options = { ...OPTIONS, hasProcess: true };
  const metrics = createMetrics({ ...agentReaders(), ...SERVER_READERS }, fail, options);
  expect(await metrics.text()).toContain('process_resident_memory_bytes');
  let askedMs = performance.now();
  await until(async () => {
    if (performance.now() - askedMs < 200) return false; // Each look begins the measurement anew.
    askedMs = performance.now();
    const lag = /^nodejs_eventloop_lag_min_seconds (\S+)$/m.exec(await metrics.text())?.[1];
    // A timer that was late is early the next time: one measurement may be shorter than the resolution.
    return Number(lag) > 0.04 && Number(lag) < 1000;
  }, 'a measurement with a resolution of 50 ms');
  expect(await metricsOf().text()).not.toContain('process_');
});

describe('the server', () => {
  let listener: Listener | undefined;
  afterEach(() => listener?.close());
  const serve = async (text: () => Promise<string>) => {
    const onRequest = metricsHandler({
      metrics: { text, contentType: 'text/plain; version=0.0.4' },
      configz: () => ({ 'kubeproxy.config.k8s.io': { mode: '' } }),
      flagz: () => ({ 'cluster-cidr': '', v: '2' }),
      version: '1.0.0',
      startedAt: new Date('2026-11-21T16:46:06.500Z'),
    });
    listener = await listenOnce({ host: '127.0.0.1', port: 0, onRequest });
    return listener.port;
  };

  const pages: readonly (readonly [string, number, string, string])[] = [
    ['/metrics', 200, 'text/plain; version=0.0.4', 'x 1\n'],
    ['/proxyMode', 200, 'text/plain; charset=utf-8', 'iptables'],
    ['/configz', 200, 'application/json', '{"kubeproxy.config.k8s.io":{"mode":""}}'],
    ['/healthz', 200, 'text/plain; charset=utf-8', 'ok'],
    ['/debug/pprof/', 404, 'text/plain; charset=utf-8', '404 page not found\n'],
  ];
  test.each(pages)('%s is %d', async (path, status, contentType, body) => {
    const heard = await ask(await serve(async () => 'x 1\n'), path);
    expect(heard).toMatchObject({ status, body, headers: { 'content-type': contentType } });
  });

  const empty = async (): Promise<string> => '';

  test('/metrics/slis counts requests to this port’s /healthz', async () => {
    const port = await serve(empty);
    const before = await ask(port, '/metrics/slis');
    expect(before.body).not.toContain('healthcheck');
    expect(before.body).toContain('\nprocess_start_time_seconds 1795279566.5\n');
    await ask(port, '/healthz');
    await ask(port, '/healthz');
    const { body } = await ask(port, '/metrics/slis');
    expect(body).toContain('\nkubernetes_healthcheck{name="ping",type="healthz"} 1\n');
    expect(body).toContain(
      '\nkubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2\n',
    );
  });

  test('/statusz and /flagz: text unless an object is asked for by name', async () => {
    const port = await serve(empty);
    const statusz = await ask(port, '/statusz');
    expect(statusz.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(statusz.body).toMatch(
      /^\nkube-proxy statusz\nWarning: .*\n\nStarted: Sat Nov 21 16:46:06 UTC 2026\nUp: \d+ hr \d\d min \d\d sec\nGo version: .*\nBinary version: 1\.0\.0\nEmulation version: 1\.37\nPaths: \/configz .*\n$/,
    );
    const flagz = await ask(port, '/flagz');
    expect(flagz.body).toMatch(/^\nkube-proxy flagz\nWarning: .*\ncluster-cidr=\nv=2\n$/);
    const as = (kind: string): Promise<Heard> => {
      const accept = `application/json;v=v1beta1;g=config.k8s.io;as=${kind}`;
      return ask(port, `/${kind.toLowerCase()}`, { accept });
    };
    expect(JSON.parse((await as('Flagz')).body)).toEqual({
      ...{ kind: 'Flagz', apiVersion: 'config.k8s.io/v1beta1', metadata: { name: 'kube-proxy' } },
      flags: { 'cluster-cidr': '', v: '2' },
    });
    expect(JSON.parse((await as('Statusz')).body)).toMatchObject({
      ...{ kind: 'Statusz', startTime: '2026-11-21T16:46:06Z', binaryVersion: '1.0.0' },
    });
    expect(await ask(port, '/flagz', { accept: 'text/html' })).toMatchObject({ status: 406 });
    expect(await ask(port, '/flagz', { accept: 'application/json' })).toMatchObject({
      status: 406,
    });
    expect(await ask(port, '/flagz', { accept: 'text/html, */*;q=0.8' })).toMatchObject({
      status: 200,
    });
  });

  test('a page that cannot be made is a 500, and the server lives on', async () => {
    const port = await serve(async () => {
      throw new Error('broken');
    });
    expect(await ask(port, '/metrics')).toMatchObject({ status: 500, body: 'broken\n' });
    expect(await ask(port, '/healthz')).toMatchObject({ status: 200 });
  });
});
