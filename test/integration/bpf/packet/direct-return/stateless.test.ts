// SPDX-License-Identifier: Apache-2.0
// Direct return and IPIP where Maglev chooses: packets are sent on by the table, and only flows whose entry is another one
// in the base have a record.
import { beforeEach, describe, expect, test } from 'vitest';
import { encodeNodeAddress } from '../../../../../src/engines/bpf/direct-return/direct-layout.ts';
import type { Family, Protocol } from '../../../../../src/model/types.ts';
import { entryOf, flowHash } from '../../../../../src/plan/maglev/hash.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { readWrapped } from '../../../../support/packets/geneve.ts';
import { readIpip } from '../../../../support/packets/ipip.ts';
import type { RuleSpec } from '../../support/drive.ts';
import { NODES, putBackendNode, putPeer, takeGeneve, withRoutes } from '../support/nodes.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES } from '../support/stage.ts';

const drive = sharedDrive();
withRoutes(drive);
const REDIRECTED = 7;
const LEFT = 0xffff_ffff;
const DIRECT = { masquerade: true, returnsDirectly: true } as const;
/** By entry: the ids of backends. */
const TABLE = [1, 2, 3, 4];
const CHANGED = [1, 2, 5, 6];

interface Served {
  readonly table?: readonly number[];
  readonly base?: readonly number[];
  readonly rule?: RuleSpec;
  readonly protocol?: Protocol;
  readonly kind?: 'maglev' | 'random';
  readonly affinitySeconds?: number;
}

describe.each(['IPv4', 'IPv6'] as const)('%s', (family: Family) => {
  const { client, vip, pod } = names(family);
  const at = PLACES[family];
  const { peer } = NODES[family];

  function serve({ table = TABLE, base, kind = 'maglev', ...how }: Served = {}): void {
    const { rule = DIRECT, protocol = 'TCP', affinitySeconds } = how;
    for (const id of new Set([...table, ...(base ?? []), ...TABLE]))
      drive.putBackend({ id, address: at.pod(id), port: 8080 });
    for (let id = 1; id < 9; id += 1) putBackendNode(drive, id, peer);
    const set = drive.putSetOfKind(kind, 16, [...new Set(table)].sort(), table);
    if (base !== undefined) drive.putBase(set, kind === 'maglev' ? table.length : undefined, base);
    drive.putFrontend({
      ...{ address: at.vip, port: 80, protocol },
      rules: { host: { ...DIRECT, ...rule, set, hasBase: base !== undefined } },
      ...(affinitySeconds !== undefined && { affinitySeconds }),
    });
    putPeer(drive, peer);
  }
  const send = (line: string) => {
    const { action, frame } = drive.run('fl_ingress', buildFrame(line));
    return { action, backend: action === REDIRECTED ? readWrapped(frame).backend : undefined };
  };
  /** A client's port whose entry is this one. */
  function portOf(entry: number, protocol: Protocol = 'TCP'): number {
    for (let port = 40_000; port < 41_000; port += 1) {
      const flow = { source: at.client, destination: at.vip, destinationPort: 80, protocol };
      if (entryOf(flowHash({ ...flow, sourcePort: port }), TABLE.length) === entry) return port;
    }
    throw new Error('no such port');
  }
  const flow = (entry: number, words: string, protocol: Protocol = 'TCP') =>
    send(`${client(portOf(entry, protocol))} > ${vip()} ${protocol.toLowerCase()} ${words}`);
  const backendsOf = (words: string, protocol?: Protocol) =>
    TABLE.map((_, entry) => flow(entry, words, protocol).backend);
  const pods = (ids: readonly number[]) => ids.map((id) => pod(id));

  beforeEach(() => serve());

  test('every packet goes where the table says, and none makes a record', () => {
    for (const words of ['SYN', 'ACK payload=9', 'FIN ACK', 'RST', 'SYN seq=9'])
      expect(backendsOf(`${words}`)).toEqual(pods(TABLE));
    expect(drive.conns(family)).toEqual([]);
    expect(drive.reasons()).toEqual({});
  });

  test('UDP, too', () => {
    serve({ protocol: 'UDP' });
    expect(backendsOf('payload=3', 'UDP')).toEqual(pods(TABLE));
    expect(drive.conns(family)).toEqual([]);
  });

  test('later fragments follow the first one, by a record', () => {
    serve({ protocol: 'UDP' });
    const first = flow(1, 'payload=200 frag=0+ take=104 id=5', 'UDP');
    const later = flow(1, 'payload=200 frag=104 take=104 id=5', 'UDP');
    expect([first.backend, later.backend]).toEqual(pods([TABLE[1] ?? 0, TABLE[1] ?? 0]));
    expect(drive.reasons()).toEqual({});
  });

  test('in IPIP, to real servers', () => {
    serve({ rule: { ...DIRECT, inIpip: true } });
    for (const id of TABLE)
      drive.object
        .map('fl_backend_node')
        .put(Uint8Array.of(id, 0, 0, 0), encodeNodeAddress(NODES[family].peer));
    for (const id of TABLE) drive.putBackend({ id, address: peer, port: 80 });
    for (const words of ['SYN', 'ACK payload=9']) {
      const line = `${client()} > ${vip()} tcp ${words}`;
      const { action, frame } = drive.run('fl_ingress', buildFrame(line));
      expect({ action, ...readIpip(frame) }).toMatchObject({
        action: REDIRECTED,
        inner: `${line} ttl=63`,
      });
    }
    expect(drive.conns(family)).toEqual([]);
  });

  test.each(['SYN ACK ack=5', 'SYN FIN ack=5'])('%s is no packet of a client', (words) => {
    serve({ table: CHANGED, base: TABLE });
    for (const entry of TABLE.keys())
      expect(drive.ingress(`${client(portOf(entry))} > ${vip()} tcp ${words}`)).toMatch(
        /^sent back: .* RST/,
      );
    expect(drive.conns(family)).toEqual([]);
  });

  test.each([
    ['another kind of set', { kind: 'random' }],
    ['session affinity', { affinitySeconds: 60 }],
  ] as const)('%s: a connection has a one-sided record', (_, how) => {
    serve(how);
    flow(0, 'SYN');
    expect(drive.conns(family)).toMatchObject([{ isOneSided: true }]);
  });

  test.each([
    ['is not masqueraded', { masquerade: false }],
    ['does not return directly', { returnsDirectly: false }],
  ])('what %s has a record of both sides', (_, change) => {
    serve({ rule: { ...DIRECT, ...change } });
    expect(flow(0, 'SYN').action).not.toBe(REDIRECTED);
    expect(drive.conns(family)).toMatchObject([{ isOneSided: false }]);
  });

  test('a backend on this node has a record of both sides', () => {
    serve({ rule: { ...DIRECT, keepsLocalClient: true } });
    drive.putBackend({ id: 1, address: at.pod(1), port: 8080, isLocal: true });
    flow(0, 'SYN');
    expect(drive.conns(family)).toMatchObject([{ isOneSided: false }]);
    drive.forgetConns(family);
    flow(0, 'ACK');
    expect(drive.conns(family)).toHaveLength(1);
    expect(drive.reasons()).toEqual({ ADOPTED: 1 });
  });

  test('an address of the node has a record: there the kernel knows what is unknown', () => {
    drive.putNodePorts(1);
    drive.putNodeAddress(at.vip, 'node');
    flow(0, 'SYN');
    expect(drive.conns(family)).toMatchObject([{ isOneSided: true }]);
    drive.forgetConns(family);
    expect(flow(0, 'ACK').action).toBe(LEFT);
    drive.putNodePorts(0);
  });

  test('a connection has a record as long as those of a former proxy may be there', () => {
    drive.putSettings({ resetUnknownFrom: process.hrtime()[0] + 60 });
    flow(0, 'SYN');
    expect(drive.conns(family)).toHaveLength(1);
  });

  test('packets and bytes are counted, and the SYN as a connection', () => {
    for (const words of ['SYN', 'ACK payload=9', 'ACK payload=9']) flow(0, words);
    const traffic = new BigUint64Array(drive.object.map('fl_traffic').mmap());
    expect(traffic[4]).toBe(3n);
    const connections = (map: string) => new BigUint64Array(drive.object.map(map).mmap());
    expect(connections('fl_fe_stat')[4]).toBe(1n);
    expect(Array.from(connections('fl_be_stat').subarray(2, 4))).toEqual([1n, 1n]);
  });

  test('no route: what goes on is dropped, and does not begin with SNAT', () => {
    const nowhere = family === 'IPv4' ? '198.18.0.1' : '2001:db8:bad::1';
    putPeer(drive, nowhere);
    for (const id of TABLE) putBackendNode(drive, id, nowhere);
    expect(drive.ingress(`${client()} > ${vip()} tcp ACK`)).toBe('dropped');
    expect(drive.reasons()).toEqual({ DIRECT_NO_ROUTE: 1 });
    expect(drive.conns(family)).toEqual([]);
  });

  describe('a table that has changed', () => {
    const change = (how: Served = {}) => serve({ table: CHANGED, base: TABLE, ...how });
    beforeEach(() => change());

    test('what begins goes by it, and has a record only where the base has another backend', () => {
      expect(backendsOf('SYN')).toEqual(pods(CHANGED));
      expect(drive.conns(family)).toHaveLength(2);
      expect(backendsOf('ACK')).toEqual(pods(CHANGED));
    });

    test('what goes on without a record has the backend of the base, and gets one there', () => {
      expect(backendsOf('ACK payload=9')).toEqual(pods(TABLE));
      expect(drive.conns(family)).toHaveLength(2);
      expect(drive.reasons()).toEqual({ ADOPTED: 2 });
      serve({ table: CHANGED });
      expect(backendsOf('ACK payload=9')).toEqual(pods(TABLE));
    });

    test('also with a backend that takes no new connections, but not with one that is gone', () => {
      drive.putBackend({ id: 3, address: at.pod(3), port: 8080, state: 'TERMINATING' });
      drive.putBackend({ id: 4, address: at.pod(4), port: 8080, state: 'GONE' });
      expect(backendsOf('ACK payload=9')).toEqual(pods([1, 2, 3, 6]));
    });

    test('an entry without a backend is as that of the table', () => {
      change({ base: [1, 2, 3, 0] });
      expect(backendsOf('ACK payload=9')).toEqual(pods([1, 2, 3, 6]));
      expect(drive.conns(family)).toHaveLength(1);
    });

    test('and has another size', () => {
      change({ base: TABLE.flatMap((id) => [id, id]) });
      expect(backendsOf('ACK payload=9')).toEqual(pods(TABLE));
      expect(drive.conns(family)).toHaveLength(2);
    });

    test('or is of another kind', () => {
      change({ kind: 'random' });
      expect(backendsOf('ACK payload=9')).toEqual(pods(TABLE));
      expect(drive.conns(family)).toHaveLength(4);
    });

    test('a datagram of UDP is no first one', () => {
      change({ protocol: 'UDP' });
      expect(backendsOf('payload=3', 'UDP')).toEqual(pods(TABLE));
      expect(drive.conns(family)).toHaveLength(2);
    });
  });

  test('an ICMP error about what a backend has answered goes to that', () => {
    const error = family === 'IPv4' ? 'icmp 3/4' : 'icmp6 2/0';
    const router = family === 'IPv4' ? '198.51.100.254' : '2001:db8:9::fe';
    const errorOf = (entry: number): string =>
      drive.ingress(
        `${router} > ${at.vip} ${error} | ${vip()} > ${client(portOf(entry))} tcp ACK payload=9`,
      );
    expect(errorOf(2)).toContain(`> ${at.pod(3)} `);
    expect(errorOf(2)).toContain(`${pod(3)} > ${client(portOf(2))}`);
    serve({ table: CHANGED, base: TABLE });
    expect(errorOf(2)).toContain(`> ${at.pod(3)} `);
    expect(drive.conns(family)).toEqual([]);
  });

  test('a port that is closed is believed from what quotes a packet that was sent', () => {
    takeGeneve(drive);
    const { own } = NODES[family];
    const outerSize = family === 'IPv4' ? 20 : 40;
    const sent = drive
      .run('fl_ingress', buildFrame(`${client(portOf(0))} > ${vip()} tcp SYN`))
      .frame.subarray(14);
    const closed = (quoted: Uint8Array): void => {
      const error = family === 'IPv4' ? 'icmp 3/3' : 'icmp6 1/4';
      const [from, to] = [at.port(own, 50_000), at.port(peer, 6081)];
      const udp = quoted.length - outerSize - 8;
      const frame = buildFrame(
        `${peer} > ${own} ${error} | ${from} > ${to} udp payload=${udp} nosum`,
      );
      frame.set(quoted, frame.length - quoted.length);
      drive.run('fl_ingress', frame);
    };
    closed(sent.map((byte, place) => (place === outerSize + 1 ? byte ^ 1 : byte)));
    expect(flow(0, 'SYN').action).toBe(REDIRECTED);
    closed(sent);
    expect(flow(0, 'SYN').action).toBe(LEFT);
    expect(flow(1, 'ACK').action, 'what goes on').toBe(REDIRECTED);
  });
});
