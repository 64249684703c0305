// SPDX-License-Identifier: Apache-2.0
// The states of TCP beside those of the kernel's connection tracking (tcp_conntracks of nf_conntrack_proto_tcp.c, Linux
// 6.x): where the two differ, and why. What conntrack ignores (IG) or finds invalid (IV) changes no state there.
import { afterAll, expect, test } from 'vitest';
import { ConnDrive, progressOf, synOf } from './support/conn-drive.ts';
import { readTable } from './support/read-table.ts';

const drive = new ConnDrive();
afterAll(() => drive.close());

/** Columns of both: FIN_WAIT and CLOSE_WAIT are half-closed, by either side; LAST_ACK and TIME_WAIT have both FINs. */
const CONNTRACK = `
                    | NEW=SS | ANSWERED=SR | ESTABLISHED=ES | FIN_CLIENT=CW | FIN_BACKEND=CW | TIME_WAIT=TW | CLOSED_BY_CLIENT=CL | CLOSED_BY_BACKEND=CL
    client S        | SS     | IG          | IG             | IG            | IG             | SS           | SS                  | SS
    client SA       | IV     | IG          | IG             | IG            | IG             | IG           | IG                  | IG
    client FA       | IV     | FW          | FW             | LA            | LA             | TW           | CL                  | CL
    client A        | IV     | ES          | ES             | CW            | CW             | TW           | CL                  | CL
    client R        | CL     | CL          | CL             | CL            | CL             | CL           | CL                  | CL
    client SF       | IV     | IV          | IV             | IV            | IV             | IV           | IV                  | IV
    backend S       | S2     | IV          | IV             | IV            | IV             | IV           | IV                  | IV
    backend SA      | SR     | IG          | IG             | IG            | IG             | IG           | IG                  | IG
    backend FA      | IV     | FW          | FW             | LA            | LA             | TW           | CL                  | CL
    backend A       | IG     | SR          | ES             | CW            | CW             | TW           | CL                  | CL
    backend R       | CL     | CL          | CL             | CL            | CL             | CL           | CL                  | CL
    backend SF      | IV     | IV          | IV             | IV            | IV             | IV           | IV                  | IV`;

const REASONS = {
  fin: 'conntrack does not know whose FIN it was: one that is sent again may be the second one, too',
  begun: 'a record may begin in the middle (Maglev on another node), where no SYN-ACK is seen',
  twin: 'nobody opens a connection to a Service from both sides',
  synAck:
    'conntrack keeps the SYN that it has ignored beside the state, and goes to SYN_RECV; here the answer to that SYN begins the connection anew',
  reset:
    'sequence numbers are compared by their upper halves, so a RST may have been forged: it is taken back when its sender goes on',
};

/** By packet and state: what it becomes here, and why. */
const DIFFERENT: Readonly<Record<string, readonly [state: string, why: keyof typeof REASONS]>> = {
  'client FA, FIN_CLIENT': ['FIN_CLIENT', 'fin'],
  'backend FA, FIN_BACKEND': ['FIN_BACKEND', 'fin'],
  'backend A, NEW': ['ANSWERED', 'begun'],
  'backend FA, NEW': ['FIN_BACKEND', 'begun'],
  'backend S, NEW': ['NEW', 'twin'],
  'backend SA, FIN_CLIENT': ['ESTABLISHED', 'synAck'],
  'backend SA, FIN_BACKEND': ['ESTABLISHED', 'synAck'],
  'backend SA, TIME_WAIT': ['ESTABLISHED', 'synAck'],
  'backend SA, CLOSED_BY_CLIENT': ['ESTABLISHED', 'synAck'],
  'backend SA, CLOSED_BY_BACKEND': ['ESTABLISHED', 'synAck'],
  'client A, CLOSED_BY_CLIENT': ['ESTABLISHED', 'reset'],
  'client FA, CLOSED_BY_CLIENT': ['FIN_CLIENT', 'reset'],
  'backend A, CLOSED_BY_BACKEND': ['ESTABLISHED', 'reset'],
  'backend FA, CLOSED_BY_BACKEND': ['FIN_BACKEND', 'reset'],
};

/** What both tell apart. */
const KIND: Readonly<Record<string, string>> = {
  ...{ NEW: 'SS', ANSWERED: 'SR', ESTABLISHED: 'ES', FIN_CLIENT: 'FW', FIN_BACKEND: 'FW' },
  ...{ TIME_WAIT: 'TW', CLOSED_BY_CLIENT: 'CL', CLOSED_BY_BACKEND: 'CL', CLOSED: 'CL' },
  ...{ CW: 'FW', LA: 'TW' },
};
const kindOf = (state: string): string => KIND[state] ?? state;

function stateAfter(packet: string, state: string): string {
  const [from, flags = ''] = packet.split(' ') as ['client', string];
  const [sequence, acknowledged] =
    from === 'client' ? [0x1001_0000, 0x2001_0000] : [0x2001_0000, 0x1001_0000];
  const { conn, effects } = drive.follow(
    {
      ...{ protocol: 'TCP', state, before: 'ESTABLISHED', syn: synOf(0x1000_ffff) },
      progressClient: progressOf(0x1001_0000, 0x2001_0000),
      progressBackend: progressOf(0x2001_0000, 0x1001_0000),
    },
    { from, flags, sequence, acknowledged },
  );
  return effects.includes('begins') ? 'NEW' : conn.state;
}

const CASES = readTable(CONNTRACK).map(({ row, column, text }) => {
  const [state = '', same = ''] = column.split('=');
  return [row, state, /^I[GV]$/.test(text) ? same : text] as const;
});

test.each(CASES)('%s, %s: conntrack has %s', (packet, state, theirs) => {
  const [wanted, why] = DIFFERENT[`${packet}, ${state}`] ?? [];
  const ours = stateAfter(packet, state);
  if (wanted === undefined) expect(kindOf(ours)).toBe(kindOf(theirs));
  else {
    expect(ours, why && REASONS[why]).toBe(wanted);
    expect(kindOf(ours)).not.toBe(kindOf(theirs));
  }
});

test('each difference is of a packet and a state that there are', () => {
  const cases = CASES.map(([packet, state]) => `${packet}, ${state}`);
  expect(cases).toEqual(expect.arrayContaining(Object.keys(DIFFERENT)));
});
