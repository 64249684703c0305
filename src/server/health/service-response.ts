// SPDX-License-Identifier: Apache-2.0
// The response of a healthCheckNodePort, byte for byte, and the addresses it listens on: kube-proxy's
// pkg/proxy/healthcheck/service_health.go.
import { familyOf, prefixContains } from '../../lib/ip.ts';
import type { Family } from '../../model/types.ts';
import type { HealthCheck, Plan } from '../../plan/types.ts';
import { type HttpResponse, jsonResponse } from '../http/response.ts';

export interface ServiceHealth {
  readonly namespace: string;
  readonly name: string;
  /** Distinct ready local addresses of the family asked. */
  readonly localEndpoints: number;
  readonly isProxyHealthy: boolean;
}

/** 200 only if there are local endpoints and the proxy is healthy. */
export function serviceHealthResponse(health: ServiceHealth): HttpResponse {
  const { namespace, name, localEndpoints, isProxyHealthy } = health;
  const body = {
    service: { namespace, name },
    localEndpoints,
    serviceProxyHealthy: isProxyHealthy,
  };
  const answer = jsonResponse(
    localEndpoints > 0 && isProxyHealthy ? 200 : 503,
    JSON.stringify(body, undefined, '\t'),
  );
  const weight = { 'X-Load-Balancing-Endpoint-Weight': String(localEndpoints) };
  return { ...answer, headers: { ...answer.headers, ...weight } };
}

export interface BindAddress {
  readonly family: Family;
  readonly host: string;
}

const WILDCARDS: Readonly<Record<Family, string>> = { IPv4: '0.0.0.0', IPv6: '::' };

/**
 * One listener per family on all addresses; with nodePortAddresses, one for each matching local address.
 * @param localAddresses undefined = not known: listens on all addresses
 */
export function bindAddressesOf(
  healthCheck: HealthCheck,
  accepted: Plan['nodePortAddresses'],
  localAddresses: readonly string[] | undefined,
): readonly BindAddress[] {
  return healthCheck.families.flatMap((family): readonly BindAddress[] => {
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
