// SPDX-License-Identifier: Apache-2.0
// The question put to a plan: who sends what to where. Text -> Packet, with a reason where that fails.
import { canonicalAddress, familyOf } from '../../lib/ip.ts';
import type { Protocol } from '../../model/types.ts';

/** The first packet of a connection, as it reaches this node or leaves a process on it. */
export interface Packet {
  /** Canonical. */
  readonly source: string;
  /** Host order, 1..65535; absent = not known. */
  readonly sourcePort?: number;
  /** Interface it came in by, if that is known: two of the detect-local modes look at nothing else. */
  readonly sourceInterface?: string;
  readonly protocol: Protocol;
  /** Canonical, of the source's family. */
  readonly destination: string;
  /** Host order, 1..65535. */
  readonly destinationPort: number;
}

export type ParsedPacket =
  | { readonly ok: true; readonly packet: Packet }
  | { readonly ok: false; readonly reason: string };

const refused = (reason: string): ParsedPacket => ({ ok: false, reason });

/** `10.1.1.9`, `10.96.0.10:80/tcp` or `[fd00:96::10]:80/tcp`; the protocol may be left out and is TCP then. */
export function parsePacket(from: string, to: string, sourceInterface?: string): ParsedPacket {
  const { address, port: sourcePort } = clientParts(from);
  const source = canonicalAddress(address);
  if (source === undefined || sourcePort === 0)
    return refused(`client ${from} is not an IP address, or one with a port as 10.1.1.9:40000`);
  const parts = /^(?:\[([^\]]+)\]|([^[\]:]+)):(\d{1,5})(?:\/([A-Za-z]+))?$/.exec(to);
  if (parts === null) {
    return refused(`destination ${to} is not like 10.96.0.10:80/tcp or [fd00:96::10]:80/tcp`);
  }
  const destination = canonicalAddress(parts[1] ?? parts[2] ?? '');
  if (destination === undefined)
    return refused(`destination ${to} does not begin with an IP address`);
  const destinationPort = Number(parts[3]);
  if (destinationPort < 1 || destinationPort > 65535) {
    return refused(`port ${destinationPort} is not from 1 to 65535`);
  }
  const protocol = (parts[4] ?? 'tcp').toUpperCase();
  if (protocol !== 'TCP' && protocol !== 'UDP' && protocol !== 'SCTP') {
    return refused(`protocol ${parts[4]} is not tcp, udp or sctp`);
  }
  if (familyOf(source) !== familyOf(destination)) {
    return refused(`client ${source} and destination ${destination} are of different IP families`);
  }
  const packet: Packet = {
    source,
    protocol,
    destination,
    destinationPort,
    ...(sourcePort !== undefined && { sourcePort }),
  };
  return {
    ok: true,
    packet: sourceInterface === undefined ? packet : { ...packet, sourceInterface },
  };
}

/** `10.1.1.9:40000` or `[fd00::9]:40000`: what is no such pair is an address. Port 0: none that exists. */
function clientParts(from: string): { readonly address: string; readonly port?: number } {
  const parts = /^(?:\[([^\]]+)\]|([^[\]:]+)):(\d{1,5})$/.exec(from);
  if (parts === null) return { address: from };
  const port = Number(parts[3]);
  return { address: parts[1] ?? parts[2] ?? '', port: port > 65535 ? 0 : port };
}
