// SPDX-License-Identifier: Apache-2.0
// Which packets are believed, and how far a record then takes its connection to have come. Sequence numbers are in units
// of 64 KiB, as the record has them: 512 of them are near.
import { afterAll, describe, expect, test } from 'vitest';
import { type Conn, ConnDrive, type Packet, progressOf, synOf } from './support/conn-drive.ts';
import { readTable } from './support/read-table.ts';

const drive = new ConnDrive();
afterAll(() => drive.close());

const SYN = 0x1000_1234;
const UNIT = 0x1_0000;
const at = (units: number): number => (units * UNIT) >>> 0;

interface Known {
  readonly state?: string;
  readonly client?: readonly [number, number];
  readonly backend?: readonly [number, number];
  readonly syn?: number;
}

const connOf = ({ state = 'ESTABLISHED', client, backend, syn = synOf(SYN) }: Known): Conn => ({
  ...{ protocol: 'TCP', state, syn },
  ...(client && { progressClient: progressOf(at(client[0]), at(client[1])) }),
  ...(backend && { progressBackend: progressOf(at(backend[0]), at(backend[1])) }),
});

const isBelieved = (known: Known, packet: Packet): string =>
  drive.follow(connOf(known), packet).event === 'none' ? 'no' : 'yes';

const segment = (from: Packet['from'], flags: string, sequence: number, acknowledged = 0) => ({
  ...{ from, flags, sequence: at(sequence), acknowledged: at(acknowledged) },
});

describe('of the client', () => {
  const client = [5000, 9000] as const;
  const backend = [9100, 5100] as const;

  test.each(
    readTable(`
                              | A   | FA  | R   | RA
      from its place          | yes | yes | yes | yes
      512 units further       | yes | yes | yes | yes
      513 units further       | no  | no  | no  | no
      512 units back          | yes | yes | yes | yes
      513 units back          | no  | no  | no  | no`).map(
      ({ row, column, text }) => [row, column, text] as const,
    ),
  )('%s, %s: %s', (place, flags, text) => {
    const units = Number(/\d+/.exec(place)?.[0] ?? 0) * (place.includes('back') ? -1 : 1);
    expect(isBelieved({ client }, segment('client', flags, 5000 + units, 9000))).toBe(text);
  });

  test('places wrap around', () => {
    const known = { client: [65_500, 1], backend: [1, 65_500] } as const;
    expect(isBelieved(known, segment('client', 'FA', 100, 1))).toBe('yes');
  });

  test.each([
    // The backend acknowledges 20,000 by now, and is at 30,000.
    ...(['A', 'FA', 'RA'] as const).map((flags) => [flags, 20_000, 30_000, 'yes'] as const),
    ['A', 20_600, 30_000, 'no'],
    ['A', 20_000, 30_600, 'no'],
    ['R', 20_000, 0, 'no'],
  ] as const)('far away, %s at %s acknowledging %s: %s', (flags, sequence, ack, text) => {
    const known = { client, backend: [30_000, 20_000] } as const;
    expect(isBelieved(known, segment('client', flags, sequence, ack))).toBe(text);
  });

  test.each([
    ['nothing is known', {}, 'yes'],
    ['a SYN-ACK that it answers', { client: [5000, 9000] }, 'yes'],
    ['a SYN-ACK of another place of the backend', { client: [5000, 9600] }, 'no'],
    ['a SYN-ACK to another SYN', { client: [5600, 9000] }, 'no'],
  ] as const)('the first ACK after %s: %s', (_, known: Known, text) => {
    const packet = segment('client', 'A', 5000, 9000);
    expect(isBelieved({ ...known, state: 'ANSWERED' }, packet)).toBe(text);
  });

  test.each([
    [5000, 'yes'],
    [5600, 'no'],
  ])('a RST that answers a SYN-ACK, at %s: %s', (sequence, text) => {
    const known = { state: 'ANSWERED', client: [5000, 9000] } as const;
    expect(isBelieved(known, segment('client', 'R', sequence))).toBe(text);
  });

  test.each([
    [5000, 'yes'],
    [5600, 'no'],
  ])('after its SYN at 5000 a packet at %s: %s', (sequence, text) => {
    const known = { state: 'NEW', client: [5000, 0] } as const;
    expect(isBelieved(known, segment('client', 'RA', sequence, 1))).toBe(text);
  });

  test('a SYN always', () => {
    expect(isBelieved({ client, backend }, segment('client', 'S', 40_000))).toBe('yes');
  });
});

describe('of the backend', () => {
  const answer = { from: 'backend', sequence: at(9000), acknowledged: SYN + 1 } as const;
  const other = { ...answer, acknowledged: SYN + 2 * UNIT };

  test.each(
    readTable(`
                                    | A   | FA  | R   | RA
      where the client is           | yes | yes | yes | yes
      513 units before the client   | no  | no  | no  | no
      513 units beyond the client   | no  | no  | no  | no`).map(
      ({ row, column, text }) => [row, column, text] as const,
    ),
  )('%s, %s: %s', (place, flags, text) => {
    const units = place.includes('before') ? -513 : place.includes('beyond') ? 513 : 0;
    const known = { client: [5000, 9000], backend: [9000 + units, 5000] } as const;
    expect(isBelieved(known, segment('backend', flags, 9000 + units, 5000))).toBe(text);
  });

  test.each([
    ['RA', answer, 'yes'],
    ['RA', other, 'no'],
    ['R', answer, 'no'],
    ['A', answer, 'no'],
  ] as const)('refuses a SYN by %s: %s', (flags, packet: Packet, text) => {
    const known = { state: 'NEW', client: [5000, 0] } as const;
    expect(isBelieved(known, { ...packet, flags })).toBe(text);
    expect(isBelieved({ ...known, syn: 0 }, { ...packet, flags })).toBe('yes');
  });

  test.each([
    ['ANSWERED', answer, 'yes'],
    ['ANSWERED', other, 'no'],
    ['ESTABLISHED', answer, 'no'],
  ] as const)('refuses a SYN that comes again, %s: %#', (state, packet: Packet, text) => {
    const known = { state, client: [5000, 40_000] } as const;
    expect(isBelieved(known, { ...packet, flags: 'RA' })).toBe(text);
  });

  test.each([
    ['NEW', answer, 'yes'],
    ['NEW', other, 'yes'],
    ['ANSWERED', answer, 'yes'],
    ['ANSWERED', other, 'no'],
    ['FIN_CLIENT', answer, 'yes'],
    ['FIN_CLIENT', other, 'no'],
    ['TIME_WAIT', other, 'no'],
  ] as const)('a SYN-ACK to %s: %#', (state, packet: Packet, text) => {
    const known = { state, client: [40_000, 41_000] } as const;
    expect(isBelieved(known, { ...packet, flags: 'SA' })).toBe(text);
    expect(isBelieved({ ...known, syn: 0 }, { ...packet, flags: 'SA' })).toBe('yes');
  });
});

describe('what the record knows afterwards', () => {
  const known = { client: [5000, 9000], backend: [9000, 5000] } as const;
  const learnt = (change: Known, packet: Packet) => {
    const { progressClient, progressBackend } = drive.follow(
      connOf({ ...known, ...change }),
      packet,
    ).conn;
    return [progressClient, progressBackend].map((progress) => [
      progress >>> 16,
      progress & 0xffff,
    ]);
  };

  test.each([
    ['an ACK', 'client', 'A', [5001, 9001], [5001, 9001], [9000, 5000]],
    ['a FIN', 'client', 'FA', [5001, 9001], [5001, 9001], [9000, 5000]],
    ['a RST', 'client', 'RA', [5001, 9001], [5000, 9000], [9000, 5000]],
    ['a SYN', 'client', 'S', [5001, 0], [5000, 9000], [9000, 5000]],
    ['a forged ACK', 'client', 'A', [6000, 9001], [5000, 9000], [9000, 5000]],
    ['an ACK', 'backend', 'A', [9001, 5001], [5000, 9000], [9001, 5001]],
    ['a RST', 'backend', 'RA', [9001, 5001], [5000, 9000], [9000, 5000]],
    // The client's may have taken another way.
    ['an ACK far away', 'backend', 'A', [30_000, 20_000], [5000, 9000], [30_000, 20_000]],
  ] as const)('%s of the %s, %s at %s', (_, from, flags, place, client, backend) => {
    expect(learnt({}, segment(from, flags, place[0], place[1]))).toEqual([client, backend]);
  });

  test.each([
    ['NEW', 'client', 'S', [7000, 0], [7000, 0], [9000, 5000]],
    ['ANSWERED', 'client', 'S', [7000, 0], [5000, 9000], [9000, 5000]],
    ['NEW', 'backend', 'SA', [7000, 3000], [3000, 7000], [7000, 3000]],
    ['FIN_CLIENT', 'backend', 'SA', [7000, 3000], [3000, 7000], [7000, 3000]],
  ] as const)('%s: of the %s %s at %s', (state, from, flags, place, client, backend) => {
    const packet = segment(from, flags, place[0], place[1]);
    const syn = synOf(packet.acknowledged - 1);
    expect(learnt({ state, syn }, packet)).toEqual([client, backend]);
  });

  test('a client that catches up', () => {
    const packet = segment('client', 'A', 20_000, 30_000);
    expect(learnt({ backend: [30_000, 20_000] }, packet)[0]).toEqual([20_000, 30_000]);
  });
});

describe('tags of SCTP', () => {
  const tags = { progressClient: 11, progressBackend: 22 };
  test.each(
    readTable(`
                        | 11  | 22  | 33
      client ABORT      | yes | yes | no
      client SHUTDOWN   | yes | yes | no
      backend ABORT     | yes | yes | no
      backend SHUTDOWN  | yes | yes | no
      client INIT       | yes | yes | yes
      backend COOKIE_ACK | yes | yes | yes`).map(
      ({ row, column, text }) => [row, column, text] as const,
    ),
  )('%s with tag %s: %s', (row, tag, text) => {
    const [from, chunk] = row.split(' ') as ['client', 'ABORT'];
    const conn: Conn = { protocol: 'SCTP', state: 'ESTABLISHED', ...tags };
    const { event } = drive.follow(conn, { from, chunk, tag: Number(tag) });
    expect(event === 'none' ? 'no' : 'yes').toBe(text);
  });

  test('are not known at first, and the first one of the client is kept', () => {
    const conn: Conn = { protocol: 'SCTP', state: 'ESTABLISHED' };
    expect(drive.follow(conn, { from: 'client', chunk: 'ABORT', tag: 33 }).event).toBe(
      'client RST',
    );
    const kept = drive.follow(conn, { from: 'client', tag: 33 }).conn.progressClient;
    expect(kept).toBe(33);
    const other = drive.follow({ ...conn, progressClient: kept }, { from: 'client', tag: 44 });
    expect(other.conn.progressClient).toBe(33);
  });
});
