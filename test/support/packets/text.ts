// SPDX-License-Identifier: Apache-2.0
// A packet as one line of text, the form in which tests show packets:
//   198.51.100.9:40000 > 203.0.113.10:80 tcp SYN ACK seq=1 ack=2 payload=100
//   [2001:db8::9]:40000 > [fd00::10]:53 udp payload=4 vlan=5
//   192.0.2.1 > 198.51.100.9 icmp 3/4 | 198.51.100.9:40000 > 203.0.113.10:80 udp payload=4
// What stands behind `|` is quoted by an ICMP error. Words without a value are flags.

export interface PacketText {
  readonly source: string;
  readonly sourcePort: number;
  readonly destination: string;
  readonly destinationPort: number;
  readonly protocol: string;
  readonly flags: ReadonlySet<string>;
  readonly values: Readonly<Record<string, string>>;
  readonly inner: PacketText | undefined;
}

function endpoint(text: string): readonly [string, number] {
  const [, bracketed, port] = /^\[(.*)\]:(\d+)$/.exec(text) ?? [];
  if (bracketed !== undefined) return [bracketed, Number(port)];
  const parts = text.split(':');
  return parts.length === 2 ? [parts[0] ?? '', Number(parts[1])] : [text, 0];
}

export function readText(text: string): PacketText {
  const [outer = '', ...quoted] = text.split(' | ');
  const [from = '', , to = '', protocol = '', ...words] = outer.trim().split(/\s+/);
  const [source, sourcePort] = endpoint(from);
  const [destination, destinationPort] = endpoint(to);
  const pairs = words.filter((word) => word.includes('='));
  return {
    ...{ source, sourcePort, destination, destinationPort, protocol },
    flags: new Set(words.filter((word) => !word.includes('='))),
    values: Object.fromEntries(pairs.map((pair) => pair.split('=', 2))),
    inner: quoted.length === 0 ? undefined : readText(quoted.join(' | ')),
  };
}

export const numberOf = (text: PacketText, name: string): number => Number(text.values[name] ?? 0);

export const isIpv6 = (address: string): boolean => address.includes(':');

export const PROTOCOLS: Readonly<Record<string, number>> = {
  tcp: 6,
  udp: 17,
  sctp: 132,
  icmp: 1,
  icmp6: 58,
};

/** Of SCTP, the first one of a packet; words of it like flags. Without one the payload begins with its type. */
export const SCTP_CHUNKS: Readonly<Record<string, number>> = {
  DATA: 0,
  INIT: 1,
  INIT_ACK: 2,
  HEARTBEAT: 4,
  ABORT: 6,
  SHUTDOWN: 7,
  SHUTDOWN_ACK: 8,
  COOKIE_ECHO: 10,
  COOKIE_ACK: 11,
  SHUTDOWN_COMPLETE: 14,
};

/** In the order of their bits. */
export const TCP_FLAGS = ['FIN', 'SYN', 'RST', 'PSH', 'ACK'] as const;

/** Extension headers by the word that stands for them in `ext=`. */
export const EXTENSIONS: Readonly<Record<string, number>> = {
  hop: 0,
  route: 43,
  dst: 60,
  auth: 51,
};
