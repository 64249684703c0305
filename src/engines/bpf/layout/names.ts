// SPDX-License-Identifier: Apache-2.0
// A service port's plan key as the record in fl_service.
import type { Family, Protocol } from '../../../model/types.ts';
import type { PortId } from '../../snapshot.ts';
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

/** The same as its parts: names have no `:` and no `/`. */
export function portIdOf(portKey: string): PortId {
  const { name: full, protocol, family } = nameOf(portKey);
  const slash = full.indexOf('/');
  const colon = full.indexOf(':', slash);
  const end = colon < 0 ? full.length : colon;
  return {
    namespace: full.slice(0, slash),
    name: full.slice(slash + 1, end),
    portName: full.slice(end + 1),
    protocol,
    family,
  };
}
