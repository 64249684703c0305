// SPDX-License-Identifier: Apache-2.0
// The state machine of connections, cell by cell: states-table.ts says what is wanted, and the program does each with a
// record and a packet. No test asks how the C tables say it.
import { afterAll, describe, expect, test } from 'vitest';
import type { Protocol } from '../../../../src/model/types.ts';
import { TABLES, TIMES } from './states-table.ts';
import {
  type Conn,
  ConnDrive,
  type Followed,
  type Packet,
  progressOf,
  RESERVED_SECONDS,
  synOf,
  TICKS_PER_SECOND,
  TIMEOUTS,
} from './support/conn-drive.ts';
import { readTable } from './support/read-table.ts';

const drive = new ConnDrive();
afterAll(() => drive.close());

const NOW = 1_000_000;
/** How far both sides have come, as both have told; a SYN has begun it. */
const CLIENT = { sequence: 0x1001_0000, acknowledged: 0x2001_0000 };
const BACKEND = { sequence: 0x2002_0000, acknowledged: 0x1002_0000 };
/** What each sends next. */
const NEXT = {
  client: { from: 'client', sequence: 0x1003_0000, acknowledged: 0x2003_0000 },
  backend: { from: 'backend', sequence: 0x2004_0000, acknowledged: 0x1004_0000 },
} as const;
const TAGS = { client: 0xc11e0001, backend: 0xbac0e002 };

const kindOf = (name: string) => ({
  protocol: (name.split(/[ ,]/)[0] ?? 'TCP') as Protocol,
  flags: [
    ...(name.includes('masqueraded') ? (['masquerade'] as const) : []),
    ...(name.includes('one-sided') ? (['directReturn'] as const) : []),
  ],
});

function connOf(name: string, column: string): Conn {
  const [state = '', before] = column.split('<');
  const { protocol, flags } = kindOf(name);
  return {
    ...{ protocol, flags, state, ...(before && { before }), seen: NOW, born: NOW },
    syn: synOf(NEXT.backend.acknowledged - 1),
    ...(protocol === 'TCP' && {
      progressClient: progressOf(CLIENT.sequence, CLIENT.acknowledged),
      progressBackend: progressOf(BACKEND.sequence, BACKEND.acknowledged),
    }),
    ...(protocol === 'SCTP' && { progressClient: TAGS.client, progressBackend: TAGS.backend }),
  };
}

type Pair = readonly [change: Partial<Conn>, packet: Packet];
const { client, backend } = NEXT;
/** The packet of each row, and what else the record is to be. */
const PACKETS: Readonly<Record<string, Readonly<Record<string, Pair>>>> = {
  TCP: {
    none: [{}, { ...client, flags: 'A', sequence: 0x7777_0000 }],
    'client late': [{}, { ...client, flags: 'S', backend: 'GONE' }],
    'client SYN': [{}, { ...client, flags: 'S', sequence: 0x7777_0000 }],
    'client data': [{}, { ...client, flags: 'A' }],
    'client FIN': [{}, { ...client, flags: 'FA' }],
    'client RST': [{}, { ...client, flags: 'R' }],
    'backend late': [{ flags: ['masquerade'] }, { ...backend, flags: 'SA' }],
    'backend SYN-ACK': [{}, { ...backend, flags: 'SA' }],
    'backend data': [{}, { ...backend, flags: 'A' }],
    'backend FIN': [{}, { ...backend, flags: 'FA' }],
    'backend RST': [{}, { ...backend, flags: 'R' }],
  },
  UDP: {
    'client late': [{}, { from: 'client', backend: 'GONE' }],
    'client data': [{}, { from: 'client' }],
    'client again': [{ born: NOW - TICKS_PER_SECOND }, { from: 'client' }],
    'backend late': [
      { flags: ['masquerade'], seen: NOW - (TIMEOUTS.udpEstablished + 1) * TICKS_PER_SECOND },
      { from: 'backend', now: NOW },
    ],
    'backend data': [{}, { from: 'backend' }],
  },
  SCTP: {
    none: [{}, { from: 'client', tag: TAGS.client, chunk: 'INIT_ACK' }],
    'client late': [{}, { from: 'client', backend: 'GONE' }],
    'client SYN': [{}, { from: 'client', chunk: 'INIT' }],
    'client data': [{ progressClient: 0 }, { from: 'client', tag: TAGS.client }],
    'client FIN': [{}, { from: 'client', tag: TAGS.client, chunk: 'SHUTDOWN' }],
    'client RST': [{}, { from: 'client', tag: TAGS.client, chunk: 'ABORT' }],
    'client done': [{}, { from: 'client', tag: TAGS.client, chunk: 'SHUTDOWN_COMPLETE' }],
    'backend SYN-ACK': [{}, { from: 'backend', tag: 0xbac0e003, chunk: 'COOKIE_ACK' }],
    'backend data': [{}, { from: 'backend', tag: TAGS.backend }],
    'backend FIN': [{}, { from: 'backend', tag: TAGS.backend, chunk: 'SHUTDOWN' }],
    'backend RST': [{}, { from: 'backend', tag: TAGS.backend, chunk: 'ABORT' }],
    'backend done': [{}, { from: 'backend', tag: TAGS.backend, chunk: 'SHUTDOWN_COMPLETE' }],
  },
};

const stateText = ({ protocol, state, before }: Conn): string =>
  protocol === 'TCP' && state.startsWith('CLOSED') ? `${state}<${before}` : state;

/** What has become of the record, in the words of the tables. */
function outcome(conn: Conn, packet: Packet, followed: Followed): string {
  const progress =
    conn.protocol === 'TCP' ? progressOf(packet.sequence ?? 0, packet.acknowledged) : packet.tag;
  const begun = conn.protocol === 'TCP' ? progressOf(packet.acknowledged ?? 0, packet.sequence) : 0;
  const now = followed.conn;
  const isAck = packet.flags?.includes('A') ?? false;
  const seen = [
    ...(now.syn !== conn.syn ? ['syn'] : []),
    ...(now.progressClient === begun && now.progressBackend === progress ? ['anew'] : []),
    ...(!isAck && now.progressClient !== conn.progressClient && now.progressClient === progress
      ? ['takes']
      : []),
    ...followed.effects.filter((effect) => /^(begins|leaves|confirms)$/.test(effect)),
  ];
  const told = followed.effects.filter((effect) => !/^(behind|resumes)$/.test(effect));
  expect([...told].sort()).toEqual([...seen].sort());
  const text = stateText(now) === stateText(conn) ? '-' : stateText(now);
  const ends = seen.find((effect) => effect === 'begins' || effect === 'leaves');
  return ends !== undefined && text === '-' ? ends : [text, ...seen].join(' +');
}

describe.each(Object.entries(TABLES))('%s', (name, table) => {
  test.each(readTable(table).map(({ row, column, text }) => [column, row, text] as const))(
    '%s, %s: %s',
    (column, row, text) => {
      const [change, packet] = PACKETS[kindOf(name).protocol]?.[row] ?? [];
      if (packet === undefined) throw new Error(`no packet for ${row}`);
      const conn = { ...connOf(name, column), ...change };
      const followed = drive.follow(conn, packet);
      expect(followed.event).toBe(row);
      expect(outcome(conn, packet, followed)).toBe(text);
    },
  );
});

describe('times', () => {
  let kind = '';
  const rows: (readonly [kind: string, state: string, cells: readonly string[]])[] = [];
  for (const line of TIMES.split('\n').slice(2)) {
    const [state = '', ...cells] = line.split('|').map((part) => part.trim());
    if (cells.length === 0) kind = state;
    else rows.push([kind, state, cells]);
  }
  const ticks = (timeout: string): number =>
    TICKS_PER_SECOND *
    (timeout === 'reserved' ? RESERVED_SECONDS : TIMEOUTS[timeout as keyof typeof TIMEOUTS]);

  test.each(rows)('%s, %s', (name, state, [liveness, kept = '', late = '']) => {
    const conn = connOf(name, state);
    const first: Packet =
      conn.protocol === 'TCP' ? { ...client, flags: 'S' } : { from: 'client', chunk: 'INIT' };
    const silentFor = (now: number) => {
      const packet = { ...first, now: NOW + now };
      // A record of another connection, which stays as it is.
      return drive.follow(conn, packet, { ...conn, proof: 1 });
    };
    expect(silentFor(ticks(kept)).liveness).toBe(liveness);
    expect(silentFor(ticks(kept) + 1).liveness).toBe('expired');
    expect(silentFor(ticks(late)).event).not.toBe('client late');
    expect(silentFor(ticks(late) + 1).event).toBe('client late');
  });

  test('a packet of another CPU may have been seen later than now', () => {
    const followed = drive.follow(connOf('TCP', 'NEW'), { ...client, flags: 'S', now: NOW - 1 });
    expect(followed).toMatchObject({ event: 'client SYN', liveness: 'half-open' });
  });
});

test.each(
  readTable(`
                  | ACTIVE       | TERMINATING  | GONE         | FREE
    TCP           | client SYN   | client SYN   | client late  | client late
    one-sided     | client SYN   | client late  | client late  | client late`).map(
    ({ row, column, text }) => [row, column, text] as const,
  ),
)('a SYN of a half-closed connection, %s, backend %s: %s', (row, column, text) => {
  const conn = connOf(`TCP ${row}`, 'FIN_CLIENT');
  const packet = { ...client, flags: 'S', backend: column as 'ACTIVE' };
  expect(drive.follow(conn, packet).event).toBe(text);
});

const EVENTS_OF_FLAGS = readTable(`
        | client      | backend
    S   | client SYN  | none
    SA  | none        | backend SYN-ACK
    A   | client data | backend data
    FA  | client FIN  | backend FIN
    R   | client RST  | backend RST
    RA  | client RST  | backend RST
    FRA | client RST  | backend RST
    F   | none        | none
    SF  | none        | none
    SFA | none        | none
    SR  | none        | none
    SRA | none        | none
        | none        | none`);

test.each(EVENTS_OF_FLAGS.map(({ row, column, text }) => [row, column, text] as const))(
  'TCP %s of the %s: %s',
  (flags, from, text) => {
    const packet = { ...NEXT[from as 'client'], flags };
    expect(drive.follow(connOf('TCP', 'ESTABLISHED'), packet).event).toBe(text);
  },
);

const EVENTS_OF_CHUNKS = readTable(`
                      | client      | backend
    INIT              | client SYN  | none
    INIT_ACK          | none        | none
    COOKIE_ECHO       | none        | none
    COOKIE_ACK        | none        | backend SYN-ACK
    DATA              | client data | backend data
    SHUTDOWN          | client FIN  | backend FIN
    SHUTDOWN_ACK      | client FIN  | backend FIN
    SHUTDOWN_COMPLETE | client done | backend done
    ABORT             | client RST  | backend RST`);

test.each(EVENTS_OF_CHUNKS.map(({ row, column, text }) => [row, column, text] as const))(
  'SCTP %s of the %s: %s',
  (chunk, from, text) => {
    const side = from as 'client';
    const packet = { from: side, tag: TAGS[side], chunk: chunk as 'INIT' };
    expect(drive.follow(connOf('SCTP', 'ESTABLISHED'), packet).event).toBe(text);
  },
);

describe('one word changes at once', () => {
  const read = connOf('TCP', 'ESTABLISHED');

  test('the FINs of both sides, on two CPUs', () => {
    const followed = drive.follow(
      { ...read, state: 'FIN_BACKEND' },
      { ...client, flags: 'FA' },
      read,
    );
    expect(followed.conn.state).toBe('TIME_WAIT');
  });

  test.each([
    ['its proof', { proof: 0x4321 }],
    ["its backend's generation", { generation: 2 }],
  ])('the record of another connection stays, told by %s', (_, other) => {
    const conn = { ...read, ...other };
    const followed = drive.follow(conn, { ...client, flags: 'FA' }, read);
    expect(followed.effects).toEqual(['leaves']);
    expect(followed.conn).toMatchObject({ state: 'ESTABLISHED', ...other });
    expect(followed.conn.progressClient).toBe(conn.progressClient);
  });
});

test.each([
  ['NEW', false],
  ['ANSWERED', false],
  ['ESTABLISHED', true],
  ['FIN_BACKEND', true],
  ['TIME_WAIT', true],
  ['CLOSED_BY_CLIENT<NEW', false],
  ['CLOSED_BY_BACKEND<ANSWERED', false],
  ['CLOSED<ESTABLISHED', true],
])('%s: both sides have confirmed it: %s', (state, isConfirmed) => {
  const nothing = { ...client, flags: '' };
  expect(drive.follow(connOf('TCP', state), nothing).isConfirmed).toBe(isConfirmed);
  expect(drive.follow(connOf('TCP, one-sided', state), nothing).isConfirmed).toBe(false);
});
