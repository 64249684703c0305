// SPDX-License-Identifier: Apache-2.0
// The responses of the health server, byte for byte those of kube-proxy's proxy_health.go (Kubernetes 1.37).
// Load balancers of clouds read /healthz (KEP-3836), liveness probes must read /livez.
import { type HttpResponse, jsonResponse } from '../http/response.ts';
import type { Verdict } from './proxy-health.ts';

/** 503 also while the node is being removed; `healthy` in the body is the proxy's own state. */
export function healthzResponse(
  verdict: Verdict,
  nowMs: number,
  isNodeEligible: boolean,
): HttpResponse {
  const isOk = verdict.isHealthy && isNodeEligible;
  return jsonResponse(
    isOk ? 200 : 503,
    body(verdict, nowMs, isOk, { nodeEligible: isNodeEligible }),
  );
}

export function livezResponse(verdict: Verdict, nowMs: number): HttpResponse {
  const isOk = verdict.isHealthy;
  return jsonResponse(isOk ? 200 : 503, body(verdict, nowMs, isOk, {}));
}

/** fairlead's own: 200 once the initial sync is complete. */
export function readyzResponse(isReady: boolean): HttpResponse {
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
