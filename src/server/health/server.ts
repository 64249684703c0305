// SPDX-License-Identifier: Apache-2.0
// Port 10256: /healthz, /livez and fairlead's own /readyz; anything else is 404. Any method is accepted.
import type { RequestListener } from 'node:http';
import { type HttpResponse, jsonResponse, NOT_FOUND, pathOf, send } from '../http/response.ts';
import type { ProxyHealth, Verdict } from './proxy-health.ts';

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

// The responses of the health server, byte for byte those of kube-proxy's proxy_health.go (Kubernetes 1.37).
// Load balancers of clouds read /healthz (KEP-3836), liveness probes must read /livez.

/** 503 also while the node is being removed; `healthy` in the body is the proxy's own state. */
function healthzResponse(verdict: Verdict, nowMs: number, isNodeEligible: boolean): HttpResponse {
  const isOk = verdict.isHealthy && isNodeEligible;
  return jsonResponse(
    isOk ? 200 : 503,
    body(verdict, nowMs, isOk, { nodeEligible: isNodeEligible }),
  );
}

function livezResponse(verdict: Verdict, nowMs: number): HttpResponse {
  const isOk = verdict.isHealthy;
  return jsonResponse(isOk ? 200 : 503, body(verdict, nowMs, isOk, {}));
}

/** fairlead's own: 200 once the initial sync is complete. */
function readyzResponse(isReady: boolean): HttpResponse {
  return jsonResponse(isReady ? 200 : 503, JSON.stringify({ ready: isReady }));
}

function body(
  { isHealthy, lastUpdatedMs, families }: Verdict,
  nowMs: number,
  isOk: boolean,
  node: { readonly nodeEligible?: boolean },
): string {
  const status = [...families].map(([family, state]) => [
    family,
    { lastUpdated: goTime(state.lastUpdatedMs), healthy: state.isHealthy },
  ]);
  return JSON.stringify({
    // Some load balancers check its age, so a healthy proxy reports the current time.
    lastUpdated: goTime(isOk ? nowMs : lastUpdatedMs),
    currentTime: goTime(nowMs),
    ...node,
    healthy: isHealthy,
    ...(status.length > 0 && { status: Object.fromEntries(status) }),
  });
}

/** RFC 3339 as Go prints it: no zeros at the end of the fraction, and year 1 for "never". */
export function goTime(ms: number | undefined): string {
  if (ms === undefined) return '0001-01-01T00:00:00Z';
  return new Date(ms).toISOString().replace(/\.?0+Z$/, 'Z');
}
