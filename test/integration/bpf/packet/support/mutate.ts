// SPDX-License-Identifier: Apache-2.0
// Random packets around the Service of stage.ts: first as text, whose checksums are right, then, of some, with
// broken bytes.
import { buildFrame } from '../../../../support/packets/build.ts';
import { randomOf } from '../../../../support/random.ts';
import { PLACES } from './stage.ts';

export class Mutator {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = randomOf(seed);
  }

  below = (limit: number): number => Math.floor(this.#random() * limit);
  chance = (share: number): boolean => this.#random() < share;
  one = <T>(...of: readonly [T, ...T[]]): T => of[this.below(of.length)] ?? of[0];

  private endpoint(family: 'IPv4' | 'IPv6', isSource: boolean): string {
    const at = PLACES[family];
    const address = isSource
      ? this.one<string>(at.client, at.client, at.pod(5), at.pod(6), at.node, at.vip)
      : this.one<string>(at.vip, at.vip, at.vip, at.node, at.pod(5), at.client);
    const port = this.one(80, 81, 82, 8080, 8080, 40_000 + this.below(4), this.below(65_536));
    return at.port(address, isSource && this.chance(0.7) ? 40_000 + this.below(4) : port);
  }

  private transport(): string {
    const tcp = ['SYN', 'ACK', 'SYN ACK', 'FIN ACK', 'RST', 'RST ACK', 'ACK PSH', ''] as const;
    const numbers = `seq=${this.below(2 ** 32)} ack=${this.below(2 ** 32)}`;
    const payload = `payload=${this.one(0, 1, 2, 9, 64, this.below(1400))}`;
    return this.one(
      `tcp ${this.one(...tcp)} ${numbers} ${payload}`,
      `udp ${payload} ${this.chance(0.1) ? 'nosum' : ''}`,
      `sctp ${payload}`,
    );
  }

  private network(family: 'IPv4' | 'IPv6'): string {
    if (this.chance(0.1)) {
      return `frag=${8 * this.below(4)}${this.chance(0.5) ? '+' : ''} take=${8 * this.below(8)} id=${this.below(3)}`;
    }
    if (!this.chance(0.15)) return '';
    if (family === 'IPv4') return 'options';
    const names = ['hop', 'dst', 'route', 'auth'] as const;
    return `ext=${Array.from({ length: 1 + this.below(7) }, () => this.one(...names)).join(',')}`;
  }

  /** An ICMP error about a flow that may be there. */
  private error(family: 'IPv4' | 'IPv6'): string {
    const at = PLACES[family];
    const type = family === 'IPv4' ? 'icmp 3/1' : 'icmp6 1/0';
    const client = at.port(at.client, 40_000 + this.below(4));
    const quoted = `${at.port(at.vip, 80)} > ${client} ${this.transport()}`;
    return `${this.one<string>(at.client, at.node)} > ${at.vip} ${type} | ${quoted}`;
  }

  /** A packet as text. */
  line(family: 'IPv4' | 'IPv6' = this.one('IPv4', 'IPv6')): string {
    if (this.chance(0.05)) return this.error(family);
    const plain = `${this.endpoint(family, true)} > ${this.endpoint(family, false)} ${this.transport()} ${this.network(family)}`;
    if (this.chance(0.85)) return plain;
    const [from = '', , to = ''] = plain.split(' ');
    const bare = (endpoint: string) => endpoint.replace(/^\[?(.*?)\]?:\d+$/, '$1');
    const type =
      family === 'IPv4'
        ? this.one('3/1', '3/4 mtu=1400', '11/0', '12/0', '8/0')
        : this.one('1/0', '2/0 mtu=1400', '3/0', '4/1', '128/0');
    const inner = `${to} > ${this.chance(0.8) ? from : this.endpoint(family, false)} ${this.transport()}`;
    const quote = this.chance(0.5) ? `quote=${this.below(90)}` : '';
    return `${bare(from)} > ${bare(to)} ${family === 'IPv4' ? 'icmp' : 'icmp6'} ${type} ${quote} | ${inner}`;
  }

  frame = (line: string): Uint8Array => buildFrame(line);

  /** Some bytes of the headers are others, or the end is missing. */
  broken(frame: Uint8Array): Uint8Array {
    const bytes = frame.slice();
    for (let n = 1 + this.below(4); n > 0; n--) {
      const at = 14 + this.below(Math.min(80, bytes.length - 14));
      bytes[at] = this.one(
        0,
        255,
        1,
        4,
        44,
        60,
        this.below(256),
        (bytes[at] ?? 0) ^ (1 << this.below(8)),
      );
    }
    // The kernel's test runs refuse a frame without a whole network header.
    const shortest = 14 + (bytes[12] === 0x86 ? 40 : 20);
    return this.chance(0.3)
      ? bytes.subarray(0, shortest + this.below(Math.max(1, bytes.length - shortest)))
      : bytes;
  }
}
