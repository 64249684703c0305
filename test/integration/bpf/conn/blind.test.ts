// SPDX-License-Identifier: Apache-2.0
// Who sends from a forged address sees no answer, so knows no sequence number of the backend. Whatever it sends, and
// whatever a backend answers to it, confirms no connection: only one that is confirmed keeps its place in a flood.
import { afterAll, expect, test } from 'vitest';
import { type Conn, ConnDrive, type Packet, progressOf, synOf } from './support/conn-drive.ts';

const drive = new ConnDrive();
afterAll(() => drive.close());

const UNIT = 0x1_0000;
/** Of the client: two SYNs. Of the backend: what it begins with, and what the client guesses, each far from the others. */
const [SYN, OTHER_SYN] = [5_000 * UNIT, 25_000 * UNIT];
const [BACKEND, GUESS, OTHER_GUESS] = [9_000 * UNIT, 40_000 * UNIT, 60_000 * UNIT];

const FORGED: readonly Packet[] = [SYN, OTHER_SYN].flatMap((sequence) => [
  { from: 'client', flags: 'S', sequence },
  { from: 'client', flags: 'R', sequence: sequence + 1 },
  ...[GUESS, OTHER_GUESS].flatMap((acknowledged) =>
    ['A', 'FA', 'RA'].map(
      (flags): Packet => ({ from: 'client', flags, sequence: sequence + 1, acknowledged }),
    ),
  ),
]);

/** A SYN-ACK, a challenge (RFC 5961), a refusal; and a RST to what acknowledges nothing that it has sent. */
const ANSWERS: readonly Packet[] = [
  ...[SYN, OTHER_SYN].flatMap((syn): Packet[] => [
    { from: 'backend', flags: 'SA', sequence: BACKEND, acknowledged: syn + 1 },
    { from: 'backend', flags: 'A', sequence: BACKEND + 1, acknowledged: syn + 1 },
    { from: 'backend', flags: 'RA', sequence: 0, acknowledged: syn + 1 },
  ]),
  ...[GUESS, OTHER_GUESS].map((sequence): Packet => ({ from: 'backend', flags: 'R', sequence })),
];

const nameOf = ({ from, flags, sequence = 0, acknowledged = 0 }: Packet): string =>
  `${from} ${flags} ${sequence / UNIT} ${acknowledged / UNIT}`;

test('no packets of a client that sees no answer confirm a connection', () => {
  const begun: Conn = {
    ...{ protocol: 'TCP', state: 'NEW', syn: synOf(SYN) },
    progressClient: progressOf(SYN),
  };
  const known = new Map<string, { readonly conn: Conn; readonly path: readonly string[] }>();
  const next = [{ conn: begun, path: ['client S'] as readonly string[] }];
  for (let one = next.shift(); one !== undefined; one = next.shift()) {
    for (const packet of [...FORGED, ...ANSWERS]) {
      const { conn, effects, isConfirmed } = drive.follow(one.conn, packet);
      const path = [...one.path, nameOf(packet)];
      expect(isConfirmed, path.join('\n')).toBe(false);
      const key = JSON.stringify(conn);
      if (effects.includes('begins') || known.has(key)) continue;
      known.set(key, { conn, path });
      next.push({ conn, path });
    }
  }
  const states = new Set([...known.values()].map(({ conn }) => conn.state));
  expect([...states].sort()).toEqual([
    ...['ANSWERED', 'CLOSED', 'CLOSED_BY_BACKEND', 'CLOSED_BY_CLIENT', 'NEW'],
  ]);
});
