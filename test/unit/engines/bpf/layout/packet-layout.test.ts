// SPDX-License-Identifier: Apache-2.0
// The codecs of the packet layer against the C structs: the object's own BTF, and bytes by hand.
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import * as layout from '../../../../../src/engines/bpf/layout/packet-layout.ts';
import { readBtf } from '../../../../../src/sys/native.ts';
import { bpfObjectPath } from '../../../../../src/sys/package.ts';

const objects = ['packet.bpf.o', 'sweep.bpf.o'].map(bpfObjectPath);
const isBuilt = objects.every(existsSync);
const [packet, sweep] = isBuilt
  ? objects.map((path) => readBtf(readFileSync(path)))
  : [undefined, undefined];
/** Of the packet programs, and what only the sweep has. */
const ofSweep = sweep?.structs.filter(({ name }) => /^swe/.test(name)) ?? [];
const btf = {
  structs: [...(packet?.structs ?? []), ...ofSweep],
};
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const bytes = (text: string): Uint8Array => Buffer.from(text.replaceAll(' ', ''), 'hex');

describe.skipIf(!isBuilt)('against the BTF of the object', () => {
  const fields = (name: string) => btf.structs.find((struct) => struct.name === name)?.fields;
  const offsets = (name: string) =>
    Object.fromEntries(fields(name)?.map((field) => [field.name, field.offsetBytes]) ?? []);
  const bits = (name: string) => fields(name)?.map((field) => field.name);

  test.each(Object.entries(layout.PACKET_SIZE))('struct %s has %i bytes', (name, size) => {
    const structs = btf.structs.filter((struct) => struct.name === name);
    expect(structs.map(({ sizeBytes }) => sizeBytes)).toEqual([size]);
  });

  test('fields are at the offsets that the codecs use', () => {
    expect(offsets('device')).toMatchObject({ ifindex: 0, snat4: 4, snat6: 8, flags: 24, mac: 26 });
    expect(offsets('flow_timeouts')).toEqual({
      ...{ tcp_new: 0, tcp_established: 4, tcp_half_closed: 8, tcp_closed: 12 },
      ...{ udp_new: 16, udp_established: 20 },
    });
    expect(offsets('packet_settings')).toMatchObject({
      ...{ secret: 0, timeout_seconds: 8, answers_per_second: 32, snat_first: 36, snat_last: 38 },
      ...{ node_address4: 40, node_address6: 44, flags: 60 },
      ...{ hold_until: 66, reset_unknown_from: 68 },
    });
    expect(offsets('traffic')).toEqual({
      packets: 0,
      bytes: 8,
      reply_packets: 16,
      reply_bytes: 24,
    });
  });

  test('what the sweep is called with, and says', () => {
    expect(offsets('sweep_call')).toMatchObject({ family: 0, first: 4, count: 8 });
    expect(offsets('swept')).toEqual({ entries: 0, expired: 8 });
  });

  test('flags are the bits that the codecs use', () => {
    const flags = ['is_pod', 'leads_to_pod', 'xdp_target', 'drops_others', 'is_uplink'];
    expect(bits('device_flags')).toEqual([...flags, 'is_tunnel']);
    expect(bits('packet_flags')).toEqual([
      ...['reset_gone', 'answer_ping', 'leave_new'],
      ...['has_features', 'with_ipv6', 'with_direct_return'],
    ]);
  });
});

describe('bytes by hand', () => {
  test('settings and devices', () => {
    const settings = layout.encodePacketSettings({
      secret: 0x0123456789abcdefn,
      timeoutSeconds: {
        ...{ tcpNew: 1, tcpEstablished: 2, tcpHalfClosed: 3, tcpClosed: 4 },
        ...{ udpNew: 5, udpEstablished: 6 },
      },
      answersPerSecond: 7,
      snatPorts: { first: 61_000, last: 65_535 },
      localPorts: { first: 32_768, last: 60_999 },
      nodeAddress: { IPv4: '192.0.2.11', IPv6: '2001:db8::11' },
      ...{ resetGone: false, resetUnknownFrom: 9, answerPing: true, leaveNew: false },
      features: { ipv6: true, directReturn: false },
    });
    expect(hex(settings)).toBe(
      'efcdab8967452301010000000200000003000000040000000500000006000000' +
        '07000000' +
        '48eeffff' +
        'c000020b20010db8000000000000000000000011' +
        '1a00' +
        '008047ee' +
        '0000' +
        '09000000',
    );
    expect(layout.decodeKeptSettings(settings)).toEqual({
      secret: 0x0123456789abcdefn,
      resetUnknownFrom: 9,
      leaveNew: false,
    });
    expect(layout.decodeKeptSettings(new Uint8Array(72))).toBeUndefined();
    expect(layout.decodeFeatures(settings)).toEqual({ ipv6: true, directReturn: false });
    expect(layout.decodeFeatures(new Uint8Array(72)), 'of an earlier version').toBeUndefined();
    const device = {
      ...{ ifindex: 7, snat: { IPv6: '2001:db8::11' }, isPod: true, leadsToPod: true },
      ...{ takesFrames: true, dropsOthers: true, isUplink: true, isTunnel: true },
      mac: '02:fe:00:00:00:0a',
    };
    expect(hex(layout.encodeDevice(device))).toBe(
      '070000000000000020010db80000000000000000000000113f' + '0002fe0000000a',
    );
  });

  test('the sweep', () => {
    const call = layout.encodeSweepCall({ family: 'IPv6', first: 0x01_0200, count: 512 });
    expect(call.length, 'a frame').toBeGreaterThanOrEqual(64);
    expect(hex(call.subarray(14, 14 + layout.PACKET_SIZE.sweep_call))).toBe(
      '06000000' + '00020100' + '00020000',
    );
    expect(layout.encodeSweepCall({ family: 'IPv4', first: 0, count: 1 })[14]).toBe(4);
    const swept = '0100000000000000 0200000000000000';
    expect(layout.decodeSwept(bytes(swept))).toEqual({ entries: 1, expired: 2 });
  });
});
