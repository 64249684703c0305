// SPDX-License-Identifier: Apache-2.0
// Port 10256: /healthz, /livez and fairlead's own /readyz; anything else is 404. Any method is accepted.
import type { RequestListener } from 'node:http';
import { type HttpResponse, NOT_FOUND, pathOf, send } from '../http/response.ts';
import type { ProxyHealth } from './proxy-health.ts';
import { healthzResponse, livezResponse, readyzResponse } from './responses.ts';

export interface HealthParts {
  readonly health: ProxyHealth;
  readonly isReady: () => boolean;
  /** For kubeproxy_proxy_healthz_total and kubeproxy_proxy_livez_total. */
  readonly onResponse?: (probe: 'healthz' | 'livez', status: number) => void;
}

export function healthHandler({ health, isReady, onResponse }: HealthParts): RequestListener {
  const answer = (path: string): HttpResponse => {
    switch (path) {
      case '/healthz': {
        const found = healthzResponse(health.verdict(), health.nowMs(), health.isNodeEligible());
        onResponse?.('healthz', found.status);
        return found;
      }
      case '/livez': {
        const found = livezResponse(health.verdict(), health.nowMs());
        onResponse?.('livez', found.status);
        return found;
      }
      case '/readyz':
        return readyzResponse(isReady());
      default:
        return NOT_FOUND;
    }
  };
  return (request, response) => send(response, answer(pathOf(request)));
}
