// SPDX-License-Identifier: Apache-2.0
// Addresses to bind and the node's name, by kube-proxy's rules: SetDefaults_KubeProxyConfiguration and
// getDefaultAddresses (pkg/proxy/apis/config/v1alpha1/defaults.go), AppendPortIfNeeded (pkg/proxy/util),
// GetHostname (k8s.io/component-helpers/node/util).
import { canonicalAddress, familyOf, isUnspecified } from '../lib/ip.ts';

/** Where one TCP listener binds. `host` is a canonical address, `0.0.0.0` and `::` included. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

export const HEALTHZ_PORT = 10256;
export const METRICS_PORT = 10249;
/** Beside a kube-proxy, which has the other ones. */
export const SHADOW_PORTS = { healthz: 10266, metrics: 10267 } as const;

const HOST_PORT = /^(?:\[([^\]]*)\]|([^:]*)):(\d+)$/;

/** The default hosts: those of the bind address's family. */
export function defaultHosts(bindAddress: string): {
  readonly healthz: string;
  readonly metrics: string;
} {
  const address = canonicalAddress(bindAddress);
  return address !== undefined && familyOf(address) === 'IPv4'
    ? { healthz: '0.0.0.0', metrics: '127.0.0.1' }
    : { healthz: '::', metrics: '::1' };
}

/** `10.0.0.1` -> `10.0.0.1:10256`, `fd00::1` -> `[fd00::1]:10256`; anything else is returned as it is. */
export function withPort(address: string, port: number): string {
  if (HOST_PORT.test(address)) return address;
  const canonical = canonicalAddress(address);
  if (canonical === undefined) return address;
  return familyOf(canonical) === 'IPv4' ? `${address}:${port}` : `[${address}]:${port}`;
}

/** `[::1]:10249` -> `{host: '::1', port: 10249}`; undefined if it is not an IP address and a port. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const parts = HOST_PORT.exec(text);
  const host = canonicalAddress(parts?.[1] ?? parts?.[2] ?? '');
  const port = Number(parts?.[3]);
  if (host === undefined || !(port >= 1 && port <= 65535)) return undefined;
  return { host, port };
}

/** bindAddress as the plan knows it: only a real address replaces the node IP of its family. */
export function realBindAddress(bindAddress: string): string | undefined {
  const address = canonicalAddress(bindAddress);
  return address === undefined || isUnspecified(address) ? undefined : address;
}

/** The override if there is one, else the host's name; trimmed and in lower case. '' = no name at all. */
export function nodeNameOf(override: string, hostname: string): string {
  return (override === '' ? hostname : override).trim().toLowerCase();
}
