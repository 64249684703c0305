// SPDX-License-Identifier: Apache-2.0
// The answers of the health server, to the byte: kube-proxy's proxy_health.go as of Kubernetes 1.36.
// Load balancers of clouds read /healthz (KEP-3836), liveness probes must read /livez.
import { type Answer, jsonAnswer } from '../http/answer.ts';
import type { Verdict } from './proxy-health.ts';

/** 503 also while the node is on its way out; the body's `healthy` speaks of the proxy alone. */
export function healthzAnswer(verdict: Verdict, nowMs: number, isNodeEligible: boolean): Answer {
  const isOk = verdict.isHealthy && isNodeEligible;
  return jsonAnswer(isOk ? 200 : 503, body(verdict, nowMs, isOk, { nodeEligible: isNodeEligible }));
}

export function livezAnswer(verdict: Verdict, nowMs: number): Answer {
  const isOk = verdict.isHealthy;
  return jsonAnswer(isOk ? 200 : 503, body(verdict, nowMs, isOk, {}));
}

/** Our own: has the first complete plan reached the kernel? */
export function readyzAnswer(isReady: boolean): Answer {
  return jsonAnswer(isReady ? 200 : 503, JSON.stringify({ ready: isReady }));
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
    // Old load balancers look at its age, so a healthy proxy was updated just now.
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
