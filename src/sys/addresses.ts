// SPDX-License-Identifier: Apache-2.0
// Addresses of the interfaces of this process's network namespace. Knows no Services.
import { networkInterfaces } from 'node:os';

export interface InterfaceAddress {
  readonly family: 'IPv4' | 'IPv6';
  readonly address: string;
}

/** Without IPv6 link-local addresses, which are ambiguous without a zone. */
export function interfaceAddresses(): readonly InterfaceAddress[] {
  return Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .map(
      ({ family, address }): InterfaceAddress => ({
        family: family === 'IPv6' ? 'IPv6' : 'IPv4',
        address: address.split('%', 1)[0] ?? address,
      }),
    )
    .filter(({ address }) => !address.toLowerCase().startsWith('fe80:'));
}
