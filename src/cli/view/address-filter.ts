// SPDX-License-Identifier: Apache-2.0
// Filters of `address:port` texts: an address, an address with a port, or a range of addresses.
import { InvalidArgumentError } from 'commander';
import { hostPort } from '../../lib/address-bytes.ts';
import { canonicalAddress, canonicalPrefix, prefixContains } from '../../lib/ip.ts';

export type AddressFilter = (hostPort: string) => boolean;

/** `10.0.0.1`, `10.0.0.1:80`, `fd00::1`, `[fd00::1]:80`, `10.0.0.0/8`, `sk:1a`. Throws InvalidArgumentError. */
export function parseAddressFilter(text: string): AddressFilter {
  if (/^sk:[0-9a-f]+$/.test(text)) return (found) => found === text;
  const prefix = canonicalPrefix(text);
  if (prefix !== undefined) {
    return (found) => {
      const address = addressOf(found);
      return address !== '' && prefixContains(prefix, address);
    };
  }
  const address = canonicalAddress(text);
  if (address !== undefined) return (found) => addressOf(found) === address;
  const [, host = '', port = ''] = /^(\[[^\]]+\]|[^:]+):(\d{1,5})$/.exec(text) ?? [];
  const withPort = canonicalAddress(host.replace(/^\[|\]$/g, ''));
  if (withPort === undefined || Number(port) > 65_535) {
    throw new InvalidArgumentError(
      `"${text}" is not an address, an address:port or a CIDR range such as 10.0.0.1, [fd00::1]:80 or 10.0.0.0/8`,
    );
  }
  const wanted = hostPort(withPort, Number(port));
  return (found) => found === wanted;
}

/** `[fd00::1]:80` -> `fd00::1`; '' if there is none. */
const addressOf = (found: string): string =>
  found.startsWith('sk:')
    ? ''
    : found.slice(0, Math.max(0, found.lastIndexOf(':'))).replace(/^\[|\]$/g, '');
