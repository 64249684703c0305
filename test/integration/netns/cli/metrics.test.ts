// SPDX-License-Identifier: Apache-2.0
// The metrics of a live agent in every documented state: each series changes, and each recommended alert fires on
// scrapes of its own fault and on no others.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mapPin, type PinnedMap } from '../../../../src/engines/bpf/layout/versions.ts';
import { type Child, run, start } from '../../../../src/sys/exec.ts';
import { type Agent, runCommand } from '../../../../tools/lab/agent.ts';
import type { Manifest } from '../../../../tools/lab/manifests.ts';
import { insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service, slices, svc, target } from '../../../support/builders.ts';
import { getInSandbox } from '../../../support/http/get.ts';
import { MANIFEST_METRICS, Scrapes } from '../../../support/http/scrape.ts';
import { startOneNode } from '../../../support/node.ts';
import { mapIteratorRefusal } from '../../../support/programs/map-iterators.ts';
import { evaluateAlerts, preparePromql } from '../../../support/programs/promql.ts';
import { TIMEOUT_MS, untilHolds } from '../../../support/until.ts';
import { runHeld } from '../stale/support.ts';

const refusal = mapIteratorRefusal();

const promql = await preparePromql();
const HEALTH_PORT = 10256;
const CHECK_PORT = 32_100;
const NODE = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1' } };
const FRONTENDS = 64;
const FLOWS = 11;
/** So many that what the kernel keeps free for each CPU is little. */
const HALF_OPEN = 6;
/** A round of the sweep, which counts flows, takes 10 s. */
const SWEEP_MS = 60_000;

let node: Awaited<ReturnType<typeof startOneNode>>;
let agent: Agent;
let scrapes: Scrapes;
let config: string;
let holder: Child;
/** Scrapes of each state. */
const states: Record<string, string[]> = {};

const holds = (series: string, value: number, timeoutMs = TIMEOUT_MS): Promise<void> =>
  untilHolds(
    async () => expect([series, await scrapes.value(series)]).toEqual([series, value]),
    timeoutMs,
  );
const keep = async (state: string): Promise<void> => {
  states[state] = [...(states[state] ?? []), await scrapes.take()];
};

/** Keeps a port of the node in use until it is killed. */
async function holdPort(port: number): Promise<Child> {
  let isListening: () => void = () => undefined;
  const listening = new Promise<void>((resolve) => {
    isListening = resolve;
  });
  const code = `require('net').createServer().listen(${port}, '127.0.0.1', () => console.log('ready'))`;
  const [program = '', ...args] = insideSandbox(node.instance.sandbox, [
    process.execPath,
    '-e',
    code,
  ]);
  const child = start(program, args, { onStdoutLine: () => isListening() });
  await listening;
  return child;
}

const pinOf = (map: PinnedMap): string => join(node.instance.bpfRoot, 'maps', mapPin(map));

/** struct conn_counts of the first CPU, IPv4. */
async function count(counts: readonly number[]): Promise<void> {
  const words = BigUint64Array.from(counts, BigInt);
  const bytes = Array.from(new Uint8Array(words.buffer), (byte) =>
    byte.toString(16).padStart(2, '0'),
  );
  await bpftool([
    `map update pinned ${pinOf('fl_conn_count')} key hex 00 00 00 00 value hex ${bytes.join(' ')}`,
  ]);
}

async function bpftool(lines: readonly string[]): Promise<void> {
  const { code, stderr } = await run('bpftool', ['batch', 'file', '-'], {
    stdin: lines.map((line) => `${line}\n`).join(''),
  });
  expect(code, stderr).toBe(0);
}

const configText = (topServices: number): string => `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
---
apiVersion: fairlead.io/v1alpha1
kind: FairleadConfiguration
metricsTopServices: ${topServices}
auditInterval: 300ms
mapSizes: {frontends: ${FRONTENDS}, flows: ${FLOWS}}
`;

beforeAll(async () => {
  node = await startOneNode(['near', 'other']);
  scrapes = new Scrapes(node.instance.sandbox);
  config = join(node.instance.runDir, 'config.yaml');
  writeFileSync(config, configText(5));
  node.manifests.put('web.yaml', service('web', { n: 10 }, node.servers));
  holder = await holdPort(HEALTH_PORT);
  agent = await node.startAgent(['--config', config]);
});
afterAll(async () => {
  holder?.kill('SIGKILL');
  await holder?.exited;
  node?.remove();
});

describe('series of a live agent', () => {
  test('a health port that is in use, then free', async () => {
    await holds('fairlead_listening{server="healthz"}', 0);
    await keep('port taken');
    holder.kill('SIGKILL');
    await holds('fairlead_listening{server="healthz"}', 1);
    await keep('healthy');
  });

  test('connections, by outcome and by Service', async () => {
    await node.client().burst(target({ n: 10 }), { connections: 20 });
    const web = 'namespace="default",service="web",port="main",protocol="TCP",ip_family="IPv4"';
    await holds(`fairlead_service_connections_total{${web}}`, 20);
    await untilHolds(async () => {
      const translated = await scrapes.value('fairlead_outcomes_total{reason="TRANSLATED"}');
      expect(translated).toBeGreaterThanOrEqual(20);
    });
  });

  test('connections that are refused, by Service', async () => {
    node.manifests.put('empty.yaml', [svc('empty', { n: 50 })]);
    const empty = 'namespace="default",service="empty",port="main",protocol="TCP",ip_family="IPv4"';
    const refused = `fairlead_service_unserved_total{${empty},verdict="refused"}`;
    await holds(refused, 0);
    await node.client().burst(target({ n: 50 }), { connections: 5 });
    await holds(refused, 5);
    node.manifests.remove('empty.yaml');
  });

  test('the Node: eligible, and not eligible with the taint of the cluster autoscaler', async () => {
    node.manifests.put('node.yaml', [NODE]);
    await holds('fairlead_node_eligible', 1);
    expect((await getInSandbox(node.instance.sandbox, HEALTH_PORT, '/healthz')).status).toBe(200);
    expect((await getInSandbox(node.instance.sandbox, HEALTH_PORT, '/livez')).status).toBe(200);
    const taints = [{ key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule' }];
    node.manifests.put('node.yaml', [{ ...NODE, spec: { taints } }]);
    await holds('fairlead_node_eligible', 0);
    expect((await getInSandbox(node.instance.sandbox, HEALTH_PORT, '/healthz')).status).toBe(503);
    node.manifests.put('node.yaml', [NODE]);
    await holds('kubeproxy_proxy_healthz_total{code="503"}', 1);
  });

  test('endpoints elsewhere behind policy Local, with a healthCheckNodePort', async () => {
    const lb = svc('lb', { n: 20 });
    const spec = {
      ...(lb['spec'] as object),
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: CHECK_PORT,
    };
    const far = { name: 'far', nodeName: 'n2', ipv4: '10.1.2.77', ipv6: 'fd00:10:1:2::77' };
    const at = new Date(Date.now() + 1).toISOString();
    const annotated = slices('lb', [{ pod: far }]).map((slice) => ({
      ...slice,
      metadata: {
        ...(slice['metadata'] as object),
        annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': at },
      },
    }));
    const nodePort = {
      name: 'main',
      port: 80,
      nodePort: 30_080,
      targetPort: 8080,
      protocol: 'TCP',
    };
    node.manifests.put('lb.yaml', [{ ...lb, spec: { ...spec, ports: [nodePort] } }, ...annotated]);
    await holds('fairlead_service_health_ports', 1);
    const noLocal = 'kubeproxy_sync_proxy_rules_no_local_endpoints_total';
    await holds(`${noLocal}{traffic_policy="external",ip_family="IPv4"}`, 1);
    const programmed = 'kubeproxy_network_programming_duration_seconds_count';
    await holds(`${programmed}{ip_family="IPv4"}`, 1);
    await untilHolds(async () => {
      const { status } = await getInSandbox(node.instance.sandbox, CHECK_PORT, '/');
      expect(status).toBe(503);
    });
    node.manifests.remove('lb.yaml');
    await holds('fairlead_service_health_ports', 0);
  });

  test('stale sockets: connected again, destroyed, and refused because they are out of reach', async (context) => {
    if (refusal !== undefined) context.skip(refusal);
    const udp = { n: 40, protocol: 'UDP' } as const;
    const { address, port } = target(udp);
    const [first, second] = node.servers;
    node.manifests.put('udp.yaml', service('udp', udp, [first!]));
    const programs = ['udp', 'hidden'].map((kind) =>
      runHeld(node, node.sandboxes[0]!, [kind, address, port, 1]),
    );
    await programs[0]!.says('held 1');
    await programs[1]!.says('hidden');
    node.manifests.put('udp.yaml', service('udp', udp, [second!]));
    await holds('fairlead_stale_sockets_connected_total', 2);
    node.manifests.remove('udp.yaml');
    const labels = 'protocol="UDP",ip_family="IPv4"';
    await holds(`fairlead_stale_sockets_destroyed_total{${labels}}`, 1);
    await holds('fairlead_stale_sockets_refused', 1);
    await holds('fairlead_stale_sockets', 0);
    for (const { child } of programs) child.kill('SIGKILL');
    await holds('fairlead_stale_sockets_refused', 0);
  });

  test('manifests that cannot be read, and objects that are rejected', async () => {
    const bad = svc('bad', { n: 30 });
    const ports = [{ name: 'main', port: 99_999, protocol: 'TCP' }];
    node.manifests.put('bad.yaml', [{ ...bad, spec: { ...(bad['spec'] as object), ports } }]);
    node.manifests.putText('broken.yaml', 'kind: [');
    await holds('fairlead_rejected_inputs{kind="Service"}', 1);
    await holds('fairlead_rejected_inputs{kind="Manifest"}', 1);
    await keep('rejected');
    node.manifests.remove('bad.yaml');
    node.manifests.remove('broken.yaml');
    await holds('fairlead_rejected_inputs{kind="Manifest"}', 0);
  });

  test('a map that fills up, and is full', async () => {
    const many = (count: number): Manifest[] =>
      Array.from({ length: count }, (_, k) =>
        service(`s${k}`, { n: 100 + k }, node.servers),
      ).flat();
    // Each takes two frontends in each family: its port, and the wildcard that refuses all other ports.
    node.manifests.put('many.yaml', many(27));
    await holds('fairlead_map_entries{map="fl_frontend4"}', 56);
    expect(await scrapes.value('fairlead_map_max_entries{map="fl_frontend4"}')).toBe(FRONTENDS);
    await keep('nearly full');
    node.manifests.put('many.yaml', many(33));
    await untilHolds(async () =>
      expect(await scrapes.value('fairlead_failed_entries')).toBeGreaterThan(0),
    );
    expect(
      await scrapes.value('kubeproxy_sync_proxy_rules_service_changes_pending'),
    ).toBeGreaterThan(0);
    await keep('full');
    node.manifests.remove('many.yaml');
    await holds('fairlead_failed_entries', 0);
    await holds('kubeproxy_sync_proxy_rules_service_changes_pending', 0);
    await holds('kubeproxy_sync_proxy_rules_endpoint_changes_pending', 0);
  });

  test('a frontend deleted by hand', async () => {
    await keep('drift');
    const key = '0a 60 00 0a 50 00 06 00';
    await bpftool([`map delete pinned ${pinOf('fl_frontend4')} key hex ${key}`]);
    await untilHolds(async () =>
      expect(await scrapes.value('fairlead_drift_total')).toBeGreaterThan(0),
    );
    await keep('drift');
  });

  test('a configuration file that changes, and changes back', async () => {
    writeFileSync(config, configText(6));
    await holds('fairlead_config_reload_needed', 1);
    await keep('configuration changed');
    writeFileSync(config, configText(5));
    await holds('fairlead_config_reload_needed', 0);
  });

  test('tables of flows, established and half-open, that are full', async () => {
    const [none, lost] = [0, 5];
    await count([FLOWS, none, none, none, none, lost, none, none]);
    await holds('fairlead_map_entries{map="fl_conn4"}', FLOWS, SWEEP_MS);
    const { stdout } = await runCommand(node.instance, [
      'status',
      ...['--run-dir', node.instance.runDir],
    ]);
    expect(stdout).toContain('Warning:    fl_conn4 is full (made for 11 connections)');
    await keep('flows full');
    await count([HALF_OPEN, HALF_OPEN, HALF_OPEN, none, none, lost, none, none]);
    await holds('fairlead_map_entries{map="fl_conn4"}', 0, SWEEP_MS);
    await holds('fairlead_map_entries{map="fl_client4"}', HALF_OPEN, SWEEP_MS);
    await keep('half-open flows full');
  });

  test('the iptables engine in place of the first, with what it cannot do', async () => {
    expect(await agent.stop()).toBe(0);
    await node.startAgent(['--config', config, '--engine', 'iptables']);
    await holds('fairlead_dataplane_limitation{dataplane="iptables",code="COUNTERS"}', 1);
  });

  test('every documented metric has changed', () => {
    const isOfStaleSockets = (name: string): boolean => name.startsWith('fairlead_stale_sockets');
    const unmoved = scrapes.unmoved(MANIFEST_METRICS);
    expect(unmoved.filter((name) => refusal === undefined || !isOfStaleSockets(name))).toEqual([]);
  });
});

const PROGRAMMING = 'kubeproxy_network_programming_duration_seconds';

describe.skipIf(!promql.isReady)('alerts', () => {
  test('fire on their own fault after the documented time, and on no other', async () => {
    if (!promql.isReady) return;
    expect(await evaluateAlerts(promql.program, states, Date.now())).toEqual({
      healthy: {},
      'port taken': { FairleadServerNotListening: 60 },
      rejected: { FairleadInputRejected: 900 },
      'nearly full': { FairleadMapNearlyFull: 300 },
      full: {
        FairleadMapNearlyFull: 300,
        FairleadEntriesFailing: 120,
        FairleadChangesPending: expect.any(Number),
      },
      'flows full': { FairleadMapNearlyFull: 300 },
      'half-open flows full': { FairleadHalfOpenFlowsEvicted: 300 },
      drift: { FairleadDrift: 0 },
      'configuration changed': { FairleadRestartNeeded: 900 },
    });
  });

  test('changes that are programmed late', async () => {
    if (!promql.isReady) return;
    const page = (late: number): string =>
      [
        ['5', 0],
        ['10', late],
        ['+Inf', late],
      ]
        .map(([le, n]) => `${PROGRAMMING}_bucket{ip_family="IPv4",le="${le}"} ${n}\n`)
        .join('');
    const late = { late: [page(1), page(5), page(9)] };
    const { late: firing } = await evaluateAlerts(promql.program, late, Date.now());
    expect(firing).toEqual({ FairleadProgrammingSlow: expect.any(Number) });
  });
});
