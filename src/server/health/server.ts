// SPDX-License-Identifier: Apache-2.0
// Port 10256: /healthz, /livez and our /readyz; anything else is 404. No method is looked at.
import type { RequestListener } from 'node:http';
import { type Answer, NOT_FOUND, pathOf, send } from '../http/answer.ts';
import { healthzAnswer, livezAnswer, readyzAnswer } from './answers.ts';
import type { ProxyHealth } from './proxy-health.ts';

export interface HealthParts {
  readonly health: ProxyHealth;
  readonly isReady: () => boolean;
  /** For kubeproxy_proxy_healthz_total and kubeproxy_proxy_livez_total. */
  readonly onAnswer?: (probe: 'healthz' | 'livez', status: number) => void;
}

export function healthHandler({ health, isReady, onAnswer }: HealthParts): RequestListener {
  const answer = (path: string): Answer => {
    switch (path) {
      case '/healthz': {
        const found = healthzAnswer(health.verdict(), health.nowMs(), health.isNodeEligible());
        onAnswer?.('healthz', found.status);
        return found;
      }
      case '/livez': {
        const found = livezAnswer(health.verdict(), health.nowMs());
        onAnswer?.('livez', found.status);
        return found;
      }
      case '/readyz':
        return readyzAnswer(isReady());
      default:
        return NOT_FOUND;
    }
  };
  return (request, response) => send(response, answer(pathOf(request)));
}
