// SPDX-License-Identifier: Apache-2.0
// The codecs of the packet layer against the C structs: the object's own BTF, and bytes by hand.
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import * as layout from '../../../../../src/dataplane/bpf/maps/packet-layout.ts';
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
  enums: [...(packet?.enums ?? []), ...(sweep?.enums ?? []).filter((e) => e.name === 'flow_table')],
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
    const ports = { source_port: 8, destination_port: 10, protocol: 12 };
    expect(offsets('tuple4')).toMatchObject({ source: 0, destination: 4, ...ports });
    expect(offsets('tuple6')).toMatchObject({ destination: 16, source_port: 32, protocol: 36 });
    expect(offsets('flow')).toEqual({
      ...{ check: 0, backend_id: 4, service_id: 8, frontend_id: 12 },
      ...{ seen_seconds: 16, born_seconds: 20, packets: 24, bytes: 32 },
      ...{ backend_port: 40, generation: 42, client_port: 44, state: 46, flags: 47 },
    });
    expect(offsets('nat')).toEqual({
      ...{ check: 0, seen_seconds: 4, reply_packets: 8, reply_bytes: 16 },
      ...{ frontend_port: 24, snat_port: 26, client_port: 28, flags: 30, syn: 31 },
      ...{ answers_by: 32, progress: 36 },
    });
    expect(offsets('nat4')).toEqual({ nat: 0, frontend_address: 40, snat_address: 44 });
    expect(offsets('nat6')).toEqual({ nat: 0, frontend_address: 40, snat_address: 56 });
    expect(offsets('snat')).toMatchObject({ check: 0, seen_seconds: 4, client_port: 8 });
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

  test('tables of the sweep are in the order of FLOW_TABLES', () => {
    expect(offsets('sweep_call')).toMatchObject({ table: 0, slice: 4, slices: 8 });
    expect(offsets('swept')).toEqual({ entries: 0, expired: 8, orphans: 16 });
    const tables = layout.FLOW_TABLES.map((map, index) => [
      map.toUpperCase().replace('FL_', 'TABLE_'),
      index,
    ]);
    expect(btf.enums.find(({ name }) => name === 'flow_table')?.values).toEqual(
      Object.fromEntries(tables),
    );
  });

  test('flags are the bits that the codecs use', () => {
    expect(bits('flow_flags')).toEqual([
      'masquerade',
      'client_fin',
      'reset',
      'direct_return',
      'ipip',
      'of_stale',
    ]);
    expect(bits('nat_flags')).toEqual([
      ...['client_is_source', 'masquerade', 'replied', 'backend_fin', 'reset', 'fresh'],
      ...['in_geneve', 'own'],
    ]);
    const flags = ['is_pod', 'leads_to_pod', 'xdp_target', 'drops_others', 'is_uplink'];
    expect(bits('device_flags')).toEqual([...flags, 'is_tunnel']);
    expect(bits('packet_flags')).toEqual(['reset_gone', 'answer_ping', 'leave_new']);
  });

  test('states have the same values', () => {
    const states = Object.entries(layout.FLOW_STATE).map(([name, value]) => [
      `FLOW_${name.toUpperCase().replace('-', '_')}`,
      value,
    ]);
    expect(btf.enums.find(({ name }) => name === 'flow_state')?.values).toEqual(
      Object.fromEntries(states),
    );
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
    });
    expect(hex(settings)).toBe(
      'efcdab8967452301010000000200000003000000040000000500000006000000' +
        '07000000' +
        '48eeffff' +
        'c000020b20010db8000000000000000000000011' +
        '0200' +
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
    const device = {
      ...{ ifindex: 7, snat: { IPv6: '2001:db8::11' }, isPod: true, leadsToPod: true },
      ...{ isXdpTarget: true, dropsOthers: true, isUplink: true, isTunnel: true },
      mac: '02:fe:00:00:00:0a',
    };
    expect(hex(layout.encodeDevice(device))).toBe(
      '070000000000000020010db80000000000000000000000113f' + '0002fe0000000a',
    );
    expect(layout.decodeDevice(layout.encodeDevice(device))).toEqual(device);
  });

  test('the sweep', () => {
    expect(hex(layout.encodeSweepCall({ table: 11, slice: 2, slices: 3 }))).toBe(
      '0b000000' + '02000000' + '03000000',
    );
    const swept = '0100000000000000 0200000000000000 0300000000000000';
    expect(layout.decodeSwept(bytes(swept))).toEqual({ entries: 1, expired: 2, orphans: 3 });
  });
});
