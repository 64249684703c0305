// SPDX-License-Identifier: Apache-2.0
// Which addresses the health and metrics servers bind for one that is configured. Pure.
import type { NetworkInterfaceInfo } from 'node:os';

export type Interfaces = Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>;

/**
 * `0.0.0.0` means every family that the node has, as in kube-proxy: Go's net.Listen binds one socket for both.
 * `127.0.0.1` alone would not be found by a client of a node without IPv4, whose localhost is `::1`.
 * @param interfaces those of os.networkInterfaces(), which has no interface of a family that is off
 */
export function bindHosts(host: string, interfaces: Interfaces): readonly string[] {
  const addresses = Object.values(interfaces).flatMap((all) => all ?? []);
  const hasIpv6 = addresses.some(({ family }) => family === 'IPv6');
  if (host === '0.0.0.0' && hasIpv6) return ['::'];
  if (host !== '127.0.0.1' || !hasIpv6) return [host];
  const ofIpv4 = addresses.filter(({ family }) => family === 'IPv4');
  if (ofIpv4.length === 0) return ['::1'];
  return ofIpv4.every(({ internal }) => internal) ? [host, '::1'] : [host];
}
