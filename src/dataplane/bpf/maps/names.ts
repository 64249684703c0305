// SPDX-License-Identifier: Apache-2.0
// A service port's plan key as the record people read in fl_service.
import type { Family, Protocol } from '../../../model/types.ts';
import type { ServiceName } from './layout.ts';

/** `ns/name:port/TCP/IPv4` -> {name: 'ns/name:port', protocol, family}; portKeyOf undoes it. */
export function nameOf(portKey: string): ServiceName {
  const familyAt = portKey.lastIndexOf('/');
  const protocolAt = portKey.lastIndexOf('/', familyAt - 1);
  return {
    name: portKey.slice(0, protocolAt),
    protocol: portKey.slice(protocolAt + 1, familyAt) as Protocol,
    family: portKey.slice(familyAt + 1) as Family,
  };
}

export const portKeyOf = ({ name, protocol, family }: ServiceName): string =>
  `${name}/${protocol}/${family}`;
