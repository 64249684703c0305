// SPDX-License-Identifier: Apache-2.0
// XDP knows for the rest of a second by which next hop a flow leaves, or that it is left. Other frames learn nothing from that.
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish } from '../support/stage.ts';
import { enterUplinks, ip, UPLINK } from '../support/uplinks.ts';
import {
  changesOfNetwork,
  FIRST_WAY,
  inOneSecond,
  ruleLines,
  SECOND_WAY,
  stayOnOneCpu,
  VIA,
  wayOf,
} from '../support/ways.ts';
import { XdpDrive } from '../support/xdp-drive.ts';

enterUplinks('each');
stayOnOneCpu();
const drive = sharedDrive();
const xdp = new XdpDrive(drive.object);
const change = changesOfNetwork();
beforeEach(() => xdp.putDevices());
afterAll(() => xdp.close());

const way = (line: string | Uint8Array): string => wayOf(xdp, line);
/** A TOS of 0x10, and the checksum with it. */
function withTos(line: string): Uint8Array {
  const frame = buildFrame(line);
  const view = new DataView(frame.buffer, frame.byteOffset);
  if (view.getUint16(12) === 0x86dd) view.setUint8(14, 0x61);
  else {
    view.setUint8(15, 0x10);
    view.setUint16(24, view.getUint16(24) - 0x10);
  }
  return frame;
}

describe.each(FAMILIES)('%s', (family) => {
  const { client, vip } = names(family);
  const at = PLACES[family];
  const question = `${client()} > ${vip()} udp payload=5`;
  const serve = (n: number, generation = 1): void =>
    publish(drive, family, {
      protocol: 'UDP',
      backends: [{ address: at.pod(n), generation }],
    });

  test('a flow keeps its next hop for the second, and others ask for theirs', () => {
    serve(5);
    const { first, second } = VIA[family];
    change(`route replace ${at.pod(5)} via ${first}`, `route replace ${at.pod(5)} via ${first}`);
    inOneSecond(xdp, () => {
      ip(`route replace ${at.pod(5)} via ${first}`);
      expect(way(question)).toBe(FIRST_WAY);
      ip(`route replace ${at.pod(5)} via ${second}`);
      expect(way(question)).toBe(FIRST_WAY);
      expect(way(`${client(40_001)} > ${vip()} udp payload=5`)).toBe(SECOND_WAY);
    });
  });

  test('what is left is left for the rest of the second, and counted each time', () => {
    serve(7);
    inOneSecond(xdp, () => {
      drive.reasons(true);
      expect([way(question), way(question)]).toEqual(['left', 'left']);
      expect(drive.reasons(true)).toEqual({ XDP_NO_TARGET: 2 });
      serve(5, 2);
      expect(way(question)).toBe('left');
      expect(way(`${client(40_001)} > ${vip()} udp payload=5`)).toBe(FIRST_WAY);
    });
    xdp.nextSecond();
    expect(way(question)).toBe(FIRST_WAY);
  });

  test('a packet that is too big for a known hop is left, and others of its flow are not', () => {
    serve(9);
    const sizes = [100, 1300, 100];
    inOneSecond(xdp, () => {
      drive.reasons(true);
      const ways = sizes.map((bytes) => way(`${client()} > ${vip()} udp payload=${bytes}`));
      expect(ways).toEqual([FIRST_WAY, 'left', FIRST_WAY]);
      expect(drive.reasons(true)).toMatchObject({ XDP_TOO_BIG: 1, XDP_SENT: 2 });
    });
  });

  test.each([
    ['by source', (from: string) => `from ${from}`],
    ['by TOS', () => 'tos 0x10'],
    ['by a port', () => 'ipproto udp sport 40001'],
  ] as const)('rules of policy routing %s are followed', (_, ruleOf) => {
    serve(5);
    const other = at.client.replace(/9$/, '8');
    for (const [line, undo] of ruleLines(family, ruleOf(other))) change(line, undo);
    const lines = {
      'by source': `${at.port(other, 40_000)} > ${vip()} udp payload=5`,
      'by TOS': withTos(question),
      'by a port': `${client(40_001)} > ${vip()} udp payload=5`,
    } as const;
    inOneSecond(xdp, () => {
      expect(way(question)).toBe(FIRST_WAY);
      expect(way(lines[_])).toBe(SECOND_WAY);
      expect(way(question)).toBe(FIRST_WAY);
    });
  });

  test('a flow that leads to another backend in the same second takes the way to that one', () => {
    inOneSecond(xdp, () => {
      serve(5, 1);
      expect(way(question)).toBe(FIRST_WAY);
      serve(6, 2);
      expect(way(question)).toBe(SECOND_WAY);
      serve(5, 3);
      expect(way(question)).toBe(FIRST_WAY);
    });
  });

  test('a frame for another station is left, whatever is known of its flow', () => {
    serve(5);
    const frame = buildFrame(question);
    frame[5] = 0x7f;
    inOneSecond(xdp, () => {
      expect([way(question), way(frame), way(question)]).toEqual([FIRST_WAY, 'left', FIRST_WAY]);
    });
  });

  test('more flows and next hops than there is room for take each its own way', () => {
    const host = (n: number): string =>
      family === 'IPv4' ? `192.0.${4 + (n >> 8)}.${n & 255}` : `2001:db8::${n + 20}`;
    const hex = (byte: number): string => byte.toString(16).padStart(2, '0');
    const station = (n: number): string => `02:00:00:77:${hex(n >> 8)}:${hex(n & 255)}`;
    if (family === 'IPv4')
      change(`route add 192.0.4.0/22 dev ${UPLINK.name}`, 'route del 192.0.4.0/22');
    const numbers = Array.from({ length: 400 }, (_, at) => at + 1);
    for (const n of numbers) {
      ip(`neigh replace ${host(n)} lladdr ${station(n)} dev ${UPLINK.name} nud permanent`);
      drive.putBackend({ id: n, address: host(n), port: 8080 });
      const rules = { host: { set: drive.putSet(n, [n]) } };
      drive.putFrontend({ address: at.vip, port: n, protocol: 'UDP', rules });
    }
    const flows = Array.from({ length: 6_000 }, (_, at) => at);
    for (const flow of [...flows, ...flows]) {
      const n = 1 + (flow % numbers.length);
      const sent = way(`${client(1024 + flow)} > ${vip(n)} udp payload=5`);
      expect(sent).toBe(`${UPLINK.mac} > ${station(n)}`);
    }
  });
});

test('an IPv6 source whose hash is that of another one with any secret takes its own way', () => {
  const { client, vip } = names('IPv6');
  const at = PLACES.IPv6;
  const other = '2001:d38:9::80:0:89';
  expect(at.client).toBe('2001:db8:9::9');
  publish(drive, 'IPv6', { protocol: 'UDP', backends: [{ address: at.pod(5) }] });
  change(`-6 route add ${other} via 2001:db8::1`, `-6 route del ${other}`);
  for (const [line, undo] of ruleLines('IPv6', `from ${other}`)) change(line, undo);
  inOneSecond(xdp, () => {
    expect(way(`${client()} > ${vip()} udp payload=5`)).toBe(FIRST_WAY);
    expect(way(`${at.port(other, 40_000)} > ${vip()} udp payload=5`)).toBe(SECOND_WAY);
  });
});
