// SPDX-License-Identifier: Apache-2.0
// Port 10249: /metrics, /metrics/slis, /proxyMode, /configz, /statusz, /flagz and /healthz, as kube-proxy's
// metrics server has them (serveMetrics in cmd/kube-proxy/app/server.go); anything else is 404.
import type { RequestListener } from 'node:http';
import { reasonOf } from '../../errors.ts';
import { type Answer, jsonAnswer, NOT_FOUND, pathOf, send, textAnswer } from '../http/answer.ts';
import type { Metrics } from './metrics.ts';
import { createSlis, type Slis } from './slis.ts';
import { type ZFacts, zAnswer } from './z-pages.ts';

/**
 * Tools and the e2e tests know three words and act on them. Ours is `iptables`: the mode whose promises
 * we keep, NodePorts on 127.0.0.1 included. The one e2e test that then looks for iptables' own counters
 * runs only where route_localnet is 1, which the bpf engine never sets. docs/configuration.md says so too.
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
    void answerTo(pathOf(request), request.headers.accept, { ...parts, slis })
      .catch((error: unknown) => textAnswer(500, `${reasonOf(error)}\n`))
      .then((answer) => send(response, answer));
  };
}

async function answerTo(
  path: string,
  accept: string | undefined,
  parts: MetricsServerParts & { readonly slis: Slis },
): Promise<Answer> {
  const { metrics, configz, slis } = parts;
  switch (path) {
    case '/metrics':
      return page(metrics.contentType, await metrics.text());
    case '/metrics/slis':
      return page(metrics.contentType, slis.text());
    case '/proxyMode':
      return textAnswer(200, PROXY_MODE);
    case '/configz':
      return jsonAnswer(200, JSON.stringify(configz()));
    case '/statusz':
      return zAnswer('Statusz', accept, parts);
    case '/flagz':
      return zAnswer('Flagz', accept, parts);
    case '/healthz':
      slis.checked();
      // Says that somebody is here, not that the proxy is healthy: that is port 10256's to say.
      return textAnswer(200, 'ok');
    default:
      return NOT_FOUND;
  }
}

const page = (contentType: string, body: string): Answer => ({
  status: 200,
  headers: { 'Content-Type': contentType },
  body,
});
