// SPDX-License-Identifier: Apache-2.0
// Two simple endpoints of TCP (RFC 9293): they number what they send, acknowledge what they have got in order, send it
// again, and end their side by a FIN or the connection by a RST.

export interface Segment {
  readonly from: 'client' | 'backend';
  readonly flags: string;
  readonly sequence: number;
  readonly acknowledged: number;
  readonly length: number;
}

/** Bytes in flight. */
const WINDOW = 2 ** 23;

/** As a number of 32 bits. */
export const wrapped = (sequence: number): number => sequence >>> 0;

/** From b to a, as signed. */
export const distance = (a: number, b: number): number => (a - b) | 0;

export class Endpoint {
  readonly from: Segment['from'];
  /** What it sends next, what the other side has acknowledged, and what it has got. */
  next: number;
  #acknowledged: number;
  got = 0;
  isOpen = false;
  isGone = false;
  /** Of its FIN. */
  #end: number | undefined;

  constructor(from: Segment['from'], first: number) {
    this.from = from;
    this.next = wrapped(first);
    this.#acknowledged = this.next;
  }

  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  #segment(flags: string, sequence: number, length = 0): Segment {
    const acknowledged = flags.includes('A') ? this.got : 0;
    return { from: this.from, flags, sequence, acknowledged, length };
  }

  /** SYN, or the SYN-ACK that answers the other one's; also again. */
  begin(other?: Segment): Segment {
    if (other !== undefined) this.got = wrapped(other.sequence + 1);
    this.next = wrapped(this.#acknowledged + 1);
    return this.#segment(other === undefined ? 'S' : 'SA', this.#acknowledged);
  }

  refuse(other: Segment): Segment {
    const segment = this.#segment('RA', 0);
    return { ...segment, acknowledged: wrapped(other.sequence + 1) };
  }

  acknowledge(): Segment {
    return this.#segment('A', this.next);
  }

  send(length: number): Segment {
    const room = WINDOW - distance(this.next, this.#acknowledged);
    if (this.hasEnded || room < length) return this.again();
    const segment = this.#segment('A', this.next, length);
    this.next = wrapped(this.next + length);
    return segment;
  }

  /** From what is not acknowledged yet. */
  again(): Segment {
    const at = this.#acknowledged;
    if (this.#end === at) return this.#segment('FA', at);
    const all = distance(this.#end ?? this.next, at);
    return this.#segment('A', at, Math.min(all, 2 ** 21));
  }

  end(): Segment {
    if (this.hasEnded) return this.again();
    this.#end = this.next;
    this.next = wrapped(this.next + 1);
    return this.#segment('FA', this.#end);
  }

  reset(): Segment {
    this.isGone = true;
    return this.#segment('RA', this.next);
  }

  /** What it answers at once. */
  receive(segment: Segment): Segment | undefined {
    const { flags, sequence, acknowledged, length } = segment;
    if (flags.includes('R')) {
      this.isGone = true;
      return undefined;
    }
    if (this.isGone) return { ...this.#segment('R', acknowledged) };
    if (flags === 'SA') this.got = wrapped(sequence + 1);
    if (flags.includes('A') && distance(acknowledged, this.#acknowledged) > 0) {
      this.#acknowledged = acknowledged;
    }
    this.isOpen = true;
    if (flags === 'SA') return this.acknowledge();
    if (sequence !== this.got) return undefined;
    this.got = wrapped(this.got + length + Number(flags.includes('F')));
    return undefined;
  }
}
