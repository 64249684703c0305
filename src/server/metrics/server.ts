// SPDX-License-Identifier: Apache-2.0
// Port 10249: /metrics, /metrics/slis, /proxyMode, /configz, /statusz, /flagz and /healthz, as kube-proxy's
// metrics server has them (serveMetrics in cmd/kube-proxy/app/server.go); anything else is 404.
import type { RequestListener } from 'node:http';
import { reasonOf } from '../../errors.ts';
import {
  type HttpResponse,
  jsonResponse,
  NOT_FOUND,
  pathOf,
  send,
  textResponse,
} from '../http/response.ts';
import type { Metrics } from './metrics.ts';
import { type ZFacts, zPageResponse } from './z-pages.ts';

/**
 * Tools and the e2e tests know iptables, nftables and ipvs, and act on them. fairlead behaves as iptables
 * does, NodePorts on 127.0.0.1 included. The one e2e test that then reads iptables' own counters runs only
 * where route_localnet is 1, which the bpf dataplane never sets (docs/configuration.md).
 */
const PROXY_MODE = 'iptables';

export interface MetricsServerParts extends ZFacts {
  readonly metrics: Pick<Metrics, 'text' | 'contentType'>;
  /** Shown as JSON under /configz. */
  readonly configz: () => unknown;
}

export function metricsHandler(parts: MetricsServerParts): RequestListener {
  const slis = createSlis(parts.startedAt);
  return (request, response) => {
    void responseTo(pathOf(request), request.headers.accept, { ...parts, slis })
      .catch((error: unknown) => textResponse(500, `${reasonOf(error)}\n`))
      .then((answer) => send(response, answer));
  };
}

async function responseTo(
  path: string,
  accept: string | undefined,
  parts: MetricsServerParts & { readonly slis: Slis },
): Promise<HttpResponse> {
  const { metrics, configz, slis } = parts;
  switch (path) {
    case '/metrics':
      return page(metrics.contentType, await metrics.text());
    case '/metrics/slis':
      return page(metrics.contentType, slis.text());
    case '/proxyMode':
      return textResponse(200, PROXY_MODE);
    case '/configz':
      return jsonResponse(200, JSON.stringify(configz()));
    case '/statusz':
      return zPageResponse('Statusz', accept, parts);
    case '/flagz':
      return zPageResponse('Flagz', accept, parts);
    case '/healthz':
      slis.checked();
      // Liveness of the process only; the health of the proxy is served on port 10256.
      return textResponse(200, 'ok');
    default:
      return NOT_FOUND;
  }
}

const page = (contentType: string, body: string): HttpResponse => ({
  status: 200,
  headers: { 'Content-Type': contentType },
  body,
});

// /metrics/slis: the results of this port's /healthz, as every Kubernetes component shows them
// (k8s.io/component-base/metrics/prometheus/slis). Its one check, `ping`, always succeeds.
interface Slis {
  /** One request to /healthz. */
  checked(): void;
  text(): string;
}

function createSlis(startedAt: Date): Slis {
  let checks = 0;
  return {
    checked() {
      checks += 1;
    },
    text: () =>
      [
        ...(checks === 0 ? [] : checkLines(checks)),
        '# HELP process_start_time_seconds [ALPHA] Start time of the process since unix epoch in seconds.',
        '# TYPE process_start_time_seconds gauge',
        `process_start_time_seconds ${startedAt.getTime() / 1000}`,
        '',
      ].join('\n'),
  };
}

const checkLines = (checks: number): readonly string[] => [
  '# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.',
  '# TYPE kubernetes_healthcheck gauge',
  'kubernetes_healthcheck{name="ping",type="healthz"} 1',
  '# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.',
  '# TYPE kubernetes_healthchecks_total counter',
  `kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} ${checks}`,
];
