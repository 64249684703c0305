// SPDX-License-Identifier: Apache-2.0
// What a healthCheckNodePort answers, to the byte, and where it listens: kube-proxy's
// pkg/proxy/healthcheck/service_health.go.
import { familyOf, prefixContains } from '../../lib/ip.ts';
import type { Family } from '../../model/types.ts';
import type { HealthCheck, Plan } from '../../plan/types.ts';
import { type Answer, jsonAnswer } from '../http/answer.ts';

export interface ServiceHealth {
  readonly namespace: string;
  readonly name: string;
  /** Distinct ready local addresses of the family asked. */
  readonly localEndpoints: number;
  readonly isProxyHealthy: boolean;
}

/** 200 only if somebody is here to serve and the rules that lead there are fresh. */
export function serviceHealthAnswer(health: ServiceHealth): Answer {
  const { namespace, name, localEndpoints, isProxyHealthy } = health;
  const body = {
    service: { namespace, name },
    localEndpoints,
    serviceProxyHealthy: isProxyHealthy,
  };
  const answer = jsonAnswer(
    localEndpoints > 0 && isProxyHealthy ? 200 : 503,
    JSON.stringify(body, undefined, '\t'),
  );
  const weight = { 'X-Load-Balancing-Endpoint-Weight': String(localEndpoints) };
  return { ...answer, headers: { ...answer.headers, ...weight } };
}

export interface Place {
  readonly family: Family;
  readonly host: string;
}

const WILDCARDS: Readonly<Record<Family, string>> = { IPv4: '0.0.0.0', IPv6: '::' };

/**
 * One listener a family on all addresses; where nodePortAddresses narrows, one for each own address inside.
 * @param localAddresses undefined = they could not be found out: all addresses then
 */
export function placesOf(
  healthCheck: HealthCheck,
  accepted: Plan['nodePortAddresses'],
  localAddresses: readonly string[] | undefined,
): readonly Place[] {
  return healthCheck.families.flatMap((family): readonly Place[] => {
    const prefixes = accepted[family];
    if (prefixes === 'all' || localAddresses === undefined) {
      return [{ family, host: WILDCARDS[family] }];
    }
    return [...new Set(localAddresses)]
      .filter((host) => familyOf(host) === family)
      .filter((host) => prefixes.some((prefix) => prefixContains(prefix, host)))
      .sort()
      .map((host) => ({ family, host }));
  });
}
