// SPDX-License-Identifier: Apache-2.0
// Compares the HTTP endpoints of fairlead and the real kube-proxy on one node: status, content type and body,
// except for times and counts.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ClusterAgent, startClusterAgent } from '../agent/agent.ts';
import { type ServedNode, startServedNode } from '../agent/served-node.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { openRelay, type Relay } from '../programs/relay.ts';
import { type KubeProxy, prepareKubeProxy, startKubeProxy } from './kube-proxy.ts';

const readiness = await prepareCluster();
const missing = readiness.isReady ? await prepareKubeProxy() : readiness.reason;
const [HEALTH_PORT, METRICS_PORT] = [10266, 10267];

interface Page {
  readonly status: number;
  readonly contentType: string | null;
  readonly nosniff: string | null;
  readonly body: string;
}

async function get(url: string, accept = '*/*', method = 'GET'): Promise<Page> {
  const answer = await fetch(url, { method, headers: { accept } });
  return {
    status: answer.status,
    contentType: answer.headers.get('content-type'),
    nosniff: answer.headers.get('x-content-type-options'),
    body: await answer.text(),
  };
}

/** What differs from one second, program or version to the next. */
const normalized = (page: Page): Page => ({
  ...page,
  // kube-proxy's newer library adds an escaping scheme, which changes no name.
  contentType: page.contentType?.replace('; escaping=underscores', '') ?? null,
  body: page.body
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, 'TIME')
    .replace(/^(process_start_time_seconds|kubernetes_healthchecks_total\S*) .*$/gm, '$1 N')
    .replace(/^(Started|Up|Go version|Binary version)[:= ].*$/gm, '$1: X')
    // kube-proxy chooses its separator at random, so that no program parses this page.
    .replace(/^(Emulation version|Paths)[:= ]+/gm, '$1: '),
});

describe.skipIf(!readiness.isReady || missing !== undefined)('beside kube-proxy', () => {
  let served: ServedNode;
  let proxy: KubeProxy;
  let agent: ClusterAgent;
  let relay: Relay;
  let urls: Readonly<Record<'health' | 'metrics', { readonly ours: string; readonly its: string }>>;

  beforeAll(async () => {
    if (!readiness.isReady || missing !== undefined) return;
    served = await startServedNode(readiness.binaries);
    const [host] = served.nodes.topology.nodes;
    proxy = await startKubeProxy(served.plane, host!, { mode: 'iptables' });
    const flags = [
      ...['--healthz-bind-address', `127.0.0.1:${HEALTH_PORT}`],
      ...['--metrics-bind-address', `127.0.0.1:${METRICS_PORT}`],
    ];
    agent = await startClusterAgent(served.plane, served.node, { identity: 'proxy', flags });
    relay = openRelay(served.plane.sandbox('relay', host!.namespace));
    const own = async (port: number): Promise<string> =>
      `http://127.0.0.1:${await relay.forward('127.0.0.1', port)}`;
    urls = {
      health: { ours: await own(HEALTH_PORT), its: proxy.healthUrl },
      metrics: { ours: await own(METRICS_PORT), its: proxy.metricsUrl },
    };
  });
  afterAll(async () => {
    await agent?.stop();
    await relay?.close();
    await proxy?.remove();
    await served?.remove();
  });

  const both = async (
    server: 'health' | 'metrics',
    path: string,
    accept?: string,
    method?: string,
  ) => {
    const { ours, its } = urls[server];
    const pages = [await get(ours + path, accept, method), await get(its + path, accept, method)];
    return pages.map(normalized) as [Page, Page];
  };

  test.each([
    ['health', '/healthz'],
    ['health', '/livez'],
    ['health', '/metrics'],
    ['health', '/'],
    ['metrics', '/healthz'],
    ['metrics', '/proxyMode'],
    ['metrics', '/statusz'],
    ['metrics', '/metrics/slis'],
    ['metrics', '/livez'],
    ['metrics', '/debug/pprof/'],
    ['metrics', '/'],
  ] as const)('%s %s: the same answer, however it is asked', async (server, path) => {
    for (const method of ['GET', 'POST', 'HEAD']) {
      const [ours, its] = await both(server, path, '*/*', method);
      expect(ours, method).toEqual(its);
    }
  });

  test('/metrics: the same format', async () => {
    const [ours, its] = await both('metrics', '/metrics');
    expect({ ...ours, body: '' }).toEqual({ ...its, body: '' });
  });

  test.each(['Statusz', 'Flagz'])('%s as an object, and unsupported media types', async (kind) => {
    const path = `/${kind.toLowerCase()}`;
    for (const version of ['v1beta1', 'v1alpha1']) {
      for (const type of ['application/json', 'application/yaml']) {
        const accept = `${type};v=${version};g=config.k8s.io;as=${kind}`;
        const [ours, its] = await both('metrics', path, accept);
        expect({ ...ours, body: '' }).toEqual({ ...its, body: '' });
        if (type === 'application/yaml') continue;
        const [own, other] = [JSON.parse(ours.body), JSON.parse(its.body)];
        expect(Object.keys(own)).toEqual(Object.keys(other));
        expect([own.kind, own.apiVersion]).toEqual([other.kind, other.apiVersion]);
      }
    }
    const [ours, its] = await both('metrics', path, 'application/json');
    expect(ours).toEqual(its);
  });

  test('/flagz: every flag it has, with its default', async () => {
    const [ours, its] = await both('metrics', '/flagz');
    const flags = ({ body }: Page): Map<string, string> =>
      new Map(
        body
          .split('\n')
          .slice(3)
          .map((line) => /^([\w-]+)(?:[:=] ?| +)(.*)$/.exec(line))
          .map((found) => [found?.[1] ?? '', found?.[2] ?? '']),
      );
    const own = flags(ours);
    const lacking = [...flags(its).keys()].filter((name) => !own.has(name));
    expect(lacking).toEqual([]);
    for (const name of ['bind-address', 'config-sync-period', 'hostname-override', 'profiling']) {
      expect([name, own.get(name)]).toEqual([name, flags(its).get(name)]);
    }
  });

  test('/configz: the same keys; values differ where the arguments do', async () => {
    const [ours, its] = await both('metrics', '/configz');
    expect({ ...ours, body: '' }).toEqual({ ...its, body: '' });
    const KEY = 'kubeproxy.config.k8s.io';
    const [own, other] = [JSON.parse(ours.body)[KEY], JSON.parse(its.body)[KEY]];
    const paths = (value: unknown, at = ''): string[] =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.entries(value).flatMap(([key, inner]) => paths(inner, `${at}.${key}`))
        : [at];
    const lacking = paths(other).filter((path) => !paths(own).includes(path));
    expect(lacking).toEqual([]);
  });
});
