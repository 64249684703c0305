// SPDX-License-Identifier: Apache-2.0
// Random connections of two TCP endpoints, with forged packets between their own. What the record says must be what the
// endpoints' packets have said so far. A forged packet has the addresses and ports of a side and none of its sequence
// numbers: it changes nothing.
import { afterAll, describe, expect, test } from 'vitest';
import { randomOf, SEED } from '../../../support/random.ts';
import { type Conn, ConnDrive, progressOf, synOf } from './support/conn-drive.ts';
import { distance, Endpoint, type Segment, wrapped } from './support/endpoints.ts';

const drive = new ConnDrive();
afterAll(() => drive.close());

const CONNECTIONS = 3000;
const STEPS = 60;
/** Farther than a record finds near, and than what is in flight. */
const FAR = 2 ** 26;

/** What the packets of both sides that came by have said. */
class Said {
  #synAck = false;
  #confirmed = false;
  #fin = { client: false, backend: false };
  #reset = { client: false, backend: false };

  hear({ from, flags }: Segment): void {
    if (flags === 'SA') this.#synAck = true;
    if (flags.includes('F')) this.#fin[from] = true;
    if (flags.includes('R')) this.#reset[from] = true;
    if (from === 'client' && /^F?A$/.test(flags)) this.#confirmed = true;
  }

  get state(): string {
    const { client, backend } = this.#reset;
    if (client && backend) return 'CLOSED';
    if (client || backend) return client ? 'CLOSED_BY_CLIENT' : 'CLOSED_BY_BACKEND';
    if (this.#fin.client && this.#fin.backend) return 'TIME_WAIT';
    if (this.#fin.client || this.#fin.backend) {
      return this.#fin.client ? 'FIN_CLIENT' : 'FIN_BACKEND';
    }
    if (this.#confirmed) return 'ESTABLISHED';
    return this.#synAck ? 'ANSWERED' : 'NEW';
  }
}

class Connection {
  readonly #random: () => number;
  readonly #client: Endpoint;
  readonly #backend: Endpoint;
  readonly #said = new Said();
  readonly log: string[] = [];
  #record: Conn;
  forged = 0;
  /** A SYN came after the end. */
  hasBegunAnew = false;

  constructor(seed: number) {
    this.#random = randomOf(seed);
    this.#client = new Endpoint('client', this.#number(2 ** 32));
    this.#backend = new Endpoint('backend', this.#number(2 ** 32));
    // The SYN that has begun it.
    const syn = this.#client.begin();
    this.#record = {
      ...{ protocol: 'TCP', state: 'NEW', syn: synOf(syn.sequence) },
      progressClient: progressOf(syn.sequence),
    };
    this.#arrive(syn);
  }

  #number(below: number): number {
    return Math.floor(this.#random() * below);
  }

  get isOver(): boolean {
    return this.hasBegunAnew || (this.#client.isGone && this.#backend.isGone);
  }

  step(): void {
    if (this.#number(2) === 0) this.#forge();
    const side = this.#number(2) === 0 ? this.#client : this.#backend;
    if (side.isGone) return;
    if (!this.#client.isOpen) this.#pass(this.#client.begin());
    else if (side.isOpen) this.#pass(this.#sentBy(side));
  }

  #sentBy(side: Endpoint): Segment {
    const action = this.#number(100);
    if (action < 40) return side.send(1 + this.#number(2 ** 22));
    if (action < 75) return side.acknowledge();
    if (action < 94) return side.again();
    return action < 98 ? side.end() : side.reset();
  }

  /** It may be lost before it comes by, and after that. */
  #pass(segment: Segment): void {
    if (this.#number(20) === 0) return;
    const effects = this.#follow(segment, 'sends');
    if (effects.includes('begins')) {
      expect(this.#said.state, this.log.join('\n')).toMatch(/^(CLOSED|TIME_WAIT)/);
      this.hasBegunAnew = true;
      return;
    }
    this.#said.hear(segment);
    expect(this.#record.state, this.log.join('\n')).toBe(this.#said.state);
    if (this.#number(20) !== 0) this.#arrive(segment);
  }

  #arrive(segment: Segment): void {
    const other = segment.from === 'client' ? this.#backend : this.#client;
    const isFirst = segment.flags === 'S' && !other.isOpen;
    const refuses = isFirst && !other.isGone && this.#number(50) === 0;
    if (refuses) other.isGone = true;
    const answer = refuses
      ? other.refuse(segment)
      : isFirst
        ? other.begin(segment)
        : other.receive(segment);
    if (answer !== undefined) this.#pass(answer);
  }

  #follow(segment: Segment, verb: string): readonly string[] {
    const { conn, effects } = drive.follow(this.#record, segment);
    const { from, flags, sequence, acknowledged } = segment;
    this.log.push(`${from} ${verb} ${flags} ${sequence} ${acknowledged}: ${conn.state}`);
    this.#record = conn;
    return effects;
  }

  /** Far from where both sides are. */
  #far(from: Endpoint): number {
    const at = wrapped(from.next + FAR + this.#number(2 ** 32 - 2 * FAR));
    expect(Math.abs(distance(at, from.next))).toBeGreaterThanOrEqual(FAR);
    return at;
  }

  #forge(): void {
    const [own, other] =
      this.#number(2) === 0 ? [this.#client, this.#backend] : [this.#backend, this.#client];
    const flags = ['A', 'FA', 'R', 'RA', 'SA', 'S', 'FRA', 'SF'][this.#number(8)] ?? 'A';
    const { state, syn, progressClient = 0, progressBackend = 0 } = this.#record;
    const isSyn = flags === 'S' || flags === 'SA';
    // A SYN may begin a connection while none lives, and is answered by the SYN-ACK of that.
    if (isSyn && !/^(ESTABLISHED|FIN_CLIENT|FIN_BACKEND)$/.test(state)) return;
    const sequence = this.#far(own);
    let acknowledged = flags.includes('A') ? this.#far(other) : 0;
    while (flags === 'SA' && synOf(acknowledged - 1) === syn) acknowledged = this.#far(other);
    this.#follow({ from: own.from, flags, sequence, acknowledged, length: 0 }, 'does not send');
    // What a backend acknowledges is noted in any case, for clients that catch up.
    const known = own.from === 'backend' ? {} : { progressBackend };
    expect(this.#record, this.log.join('\n')).toMatchObject({ state, progressClient, ...known });
    this.forged += 1;
  }
}

describe('random connections', () => {
  test(`the record says what the endpoints have said, ${CONNECTIONS} connections, seed ${SEED}`, () => {
    let forged = 0;
    const states = new Set<string>();
    for (let index = 0; index < CONNECTIONS; index += 1) {
      const connection = new Connection(SEED * CONNECTIONS + index);
      for (let step = 0; step < STEPS && !connection.isOver; step += 1) connection.step();
      forged += connection.forged;
      for (const line of connection.log) states.add(line.split(': ')[1] ?? '');
    }
    expect(forged).toBeGreaterThan(CONNECTIONS * 5);
    expect([...states].sort()).toEqual([
      ...['ANSWERED', 'CLOSED', 'CLOSED_BY_BACKEND', 'CLOSED_BY_CLIENT', 'ESTABLISHED'],
      ...['FIN_BACKEND', 'FIN_CLIENT', 'NEW', 'TIME_WAIT'],
    ]);
  });
});
