// SPDX-License-Identifier: Apache-2.0
// Connections to a set of Maglev go on where no flow is known: on this node after its flow tables were emptied, and on
// another one, with other ids and another secret.
import { afterAll, describe, expect, test } from 'vitest';
import { maglevTable } from '../../../../src/plan/maglev/maglev-table.ts';
import { PacketDrive } from '../packet/support/packet-drive.ts';
import { sharedDrive } from '../packet/support/shared-drive.ts';
import { names, PLACES } from '../packet/support/stage.ts';
import type { RuleSpec } from '../support/drive.ts';

const drive = sharedDrive();
const other = new PacketDrive({ secret: 0xfedcba9876543210n });
afterAll(() => other.close());

const HOSTS = [5, 6, 7, 8];
const TABLE = maglevTable({
  names: HOSTS.map((host) => `TCP/${host}`),
  weights: [1, 1, 1, 1],
  entries: 251,
});

type Family = 'IPv4' | 'IPv6';

/** Port 80 of the virtual address, with these ids for the backends of HOSTS. */
function publishOn(
  on: PacketDrive,
  family: Family,
  ids: readonly number[],
  { kind = 'maglev', ...rule }: Omit<RuleSpec, 'set'> & { kind?: 'maglev' | 'source-hash' } = {},
): void {
  const at = PLACES[family];
  for (const [index, id] of ids.entries())
    on.putBackend({ id, address: at.pod(HOSTS[index] ?? 0), port: 8080, isLocal: true });
  const ascending = ids.toSorted((a, b) => a - b);
  const table = Array.from(TABLE, (index) => ids[index] ?? 0);
  const set = on.putSetOfKind(kind, 16, ascending, table);
  on.putFrontend({ address: at.vip, port: 80, rules: { host: { ...rule, set } } });
}

const now = (): number => Number(process.hrtime.bigint() / 1_000_000_000n);

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, pod } = names(family);
  const publish = (rule = {}): void => publishOn(drive, family, [1, 2, 3, 4], rule);
  const lose = (): void => drive.forgetConns(family);
  const request = (words: string, port = 40_000): string =>
    drive.through(`${client(port)} > ${vip()} tcp ${words}`);
  /** The backend's side, as an address and port. */
  const to = (line: string): string => line.split(' > ')[1]?.split(' ')[0] ?? '';

  test('a connection goes on after its flows were lost', () => {
    publish();
    const backend = to(request('SYN'));
    drive.egress(`${backend} > ${client()} tcp SYN ACK`);
    request('ACK');
    lose();
    expect(request('ACK payload=9')).toBe(`${client()} > ${backend} tcp ACK payload=9`);
    expect(drive.egress(`${backend} > ${client()} tcp ACK payload=5`)).toBe(
      `${vip()} > ${client()} tcp ACK payload=5`,
    );
    request('ACK');
    expect(drive.phases(family)).toEqual(['established']);
    expect(drive.halfOpen(family)).toEqual([]);
    expect(drive.reasons()).toEqual({ ADOPTED: 1 });
  });

  test('and if it is masqueraded, with the same SNAT port', () => {
    publish({ masquerade: true });
    for (const settings of [{}, { localPorts: { first: 32_768, last: 60_999 } }]) {
      drive.putSettings(settings);
      lose();
      const before = request('SYN');
      const [snat = '', backend = ''] = before.replace(' tcp SYN', '').split(' > ');
      drive.ingress(`${backend} > ${snat} tcp SYN ACK`);
      lose();
      expect(request('ACK payload=3')).toBe(`${snat} > ${backend} tcp ACK payload=3`);
      expect(drive.through(`${backend} > ${snat} tcp ACK`)).toBe(`${vip()} > ${client()} tcp ACK`);
    }
  });

  test('every connection goes on at another node, with the backend that it has', () => {
    publish();
    publishOn(other, family, [70, 3, 900, 41]);
    const found = new Set<string>();
    for (let port = 40_000; port < 40_100; port += 1) {
      const backend = to(request('SYN', port));
      const line = `${client(port)} > ${vip()} tcp ACK payload=2`;
      expect(other.through(line)).toBe(`${client(port)} > ${backend} tcp ACK payload=2`);
      found.add(backend);
    }
    expect(found.size).toBe(HOSTS.length);
    expect(other.confirmed(family)).toEqual([]);
  });

  test.each(['FIN ACK', 'RST', 'RST ACK', 'FIN'])('%s ends it there', (flags) => {
    publish();
    const backend = to(request('SYN'));
    lose();
    expect(request(flags)).toBe(`${client()} > ${backend} tcp ${flags}`);
  });

  test('a backend that does not know it resets it, and the client sees that', () => {
    publish();
    const backend = to(request('ACK ack=7'));
    expect(drive.egress(`${backend} > ${client()} tcp RST seq=7`)).toBe(
      `${vip()} > ${client()} tcp RST seq=7`,
    );
  });

  test('the first packet of the backend need not be the answer to a SYN', () => {
    publish();
    const backend = to(request('ACK'));
    expect(drive.egress(`${backend} > ${client()} tcp ACK payload=9`)).toBe(
      `${vip()} > ${client()} tcp ACK payload=9`,
    );
  });

  test('what nobody answers stays half-open, however much of it there is', () => {
    publish();
    for (let port = 1; port <= 300; port += 1) request('ACK', port);
    expect(drive.confirmed(family)).toEqual([]);
    expect(drive.halfOpen(family)).toHaveLength(300);
  });

  describe('is not adopted', () => {
    const back = `sent back: ${vip()} > ${client()} tcp RST`;

    test('of a set of another kind', () => {
      publish({ kind: 'source-hash' });
      expect(request('ACK ack=7')).toBe(`${back} seq=7`);
      expect(drive.reasons()).toEqual({ UNKNOWN_CONNECTION: 1 });
    });

    test('a SYN with ACK', () => {
      publish();
      expect(request('SYN ACK seq=5 ack=77')).toBe(`${back} seq=77`);
    });

    test('while conntrack may know it from an earlier proxy', () => {
      publish();
      drive.putSettings({ resetUnknownFrom: now() + 60 });
      const line = `${client()} > ${vip()} tcp ACK`;
      expect(drive.through(line)).toBe(line);
      expect(drive.halfOpen(family)).toEqual([]);
    });

    test('at an address of the node: it may be of its own, or masqueraded by netfilter', () => {
      publish();
      drive.putNodePorts(1);
      drive.putNodeAddress(PLACES[family].vip, 'node');
      const line = `${client()} > ${vip()} tcp ACK`;
      expect(drive.through(line)).toBe(line);
      expect(drive.halfOpen(family)).toEqual([]);
    });

    test('from a source that may not use the frontend', () => {
      publish({ hasSourceRanges: true });
      expect(request('ACK')).toBe('dropped');
      expect(drive.reasons()).toEqual({ DROPPED_SOURCE_RANGES: 1 });
    });

    test('by another backend, after its own is gone', () => {
      drive.putSettings({ resetGone: true });
      publish();
      const backend = to(request('SYN'));
      const host = HOSTS.findIndex((one) => pod(one) === backend);
      const spec = { id: host + 1, address: PLACES[family].pod(HOSTS[host] ?? 0), port: 8080 };
      drive.putBackend({ ...spec, state: 'GONE' });
      const rest = [1, 2, 3, 4].filter((id) => id !== spec.id);
      const set = drive.putSetOfKind('maglev', 64, rest, rest);
      drive.putFrontend({ address: PLACES[family].vip, port: 80, rules: { host: { set } } });
      expect(request('ACK ack=7')).toBe(`${back} seq=7`);
    });
  });
});
