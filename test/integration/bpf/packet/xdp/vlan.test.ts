// SPDX-License-Identifier: Apache-2.0
// VLANs and bonds at XDP: tags that come in, that are added, changed and taken off, and frames of ports.
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { encodeU32 } from '../../../../../src/engines/bpf/layout/layout.ts';
import { encodeDevice } from '../../../../../src/engines/bpf/layout/packet-layout.ts';
import { linksOf } from '../../../../../src/engines/bpf/xdp/links.ts';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { describeFrame } from '../../../../support/packets/describe.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish } from '../support/stage.ts';
import { enterUplinks, POD, SECOND, UPLINK } from '../support/uplinks.ts';
import { XDP, XdpDrive } from '../support/xdp-drive.ts';

/** The second uplink stands for VLAN 5 of the first one, that of the pod for VLAN 7: no kernel needs to have VLANs for that. */
const VLANS = linksOf([
  {
    ...{ ifindex: UPLINK.ifindex, ports: [] },
    vlans: [
      { ifindex: SECOND.ifindex, tag: 0x8100_0005 },
      { ifindex: POD.ifindex, tag: 0x8100_0007 },
    ],
  },
]);

enterUplinks('each');
const drive = sharedDrive();
let xdp: XdpDrive;

function putDevice(ifindex: number, takesFrames = false): void {
  const snat = {};
  const value = encodeDevice({
    ...{ ifindex, mac: UPLINK.mac, takesFrames, snat },
    ...{ isPod: false, leadsToPod: false, dropsOthers: true, isUplink: true, isTunnel: false },
  });
  drive.object.map('fl_device').put(encodeU32(ifindex), value);
}

beforeEach(() => {
  xdp?.close();
  xdp = new XdpDrive(drive.object);
  putDevice(UPLINK.ifindex, true);
  for (const { ifindex } of [SECOND, POD]) putDevice(ifindex);
  xdp.putLinks(...VLANS);
});
afterAll(() => xdp?.close());

function play(frame: Uint8Array, device = UPLINK): string {
  const { action, frame: out } = xdp.run(frame, device);
  if (action === XDP.pass) return Buffer.compare(out, frame) === 0 ? 'left' : 'changed';
  return action === XDP.redirect ? describeFrame(out) : `action ${action}`;
}

/** Behind the addresses of the stations. */
const insert = (frame: Uint8Array, ...bytes: readonly number[]): Uint8Array =>
  Uint8Array.of(...frame.subarray(0, 12), ...bytes, ...frame.subarray(12));

const PROTOCOLS = [
  ['TCP', 'tcp SYN', 'tcp SYN ACK'],
  ['UDP', 'udp payload=5', 'udp payload=7'],
] as const;

describe.each(FAMILIES.flatMap((family) => PROTOCOLS.map((row) => [family, ...row] as const)))(
  '%s %s',
  (family, protocol, first, answer) => {
    const { client, vip, node, pod } = names(family);
    const at = PLACES[family];
    const inVlan = at.port(family === 'IPv4' ? '172.20.0.2' : 'fd00:20::2', 40_000);
    const serve = (n: number, masquerade = true): void =>
      publish(drive, family, {
        protocol,
        backends: [{ address: at.pod(n) }],
        rule: { masquerade },
      });

    test('from no VLAN into one, and back', () => {
      serve(6);
      expect(play(buildFrame(`${client()} > ${vip()} ${first}`))).toBe(
        `${node(40_000)} > ${pod(6)} ${first} ttl=63 vlan=5`,
      );
      expect(play(buildFrame(`${pod(6)} > ${node(40_000)} ${answer} vlan=5`))).toBe(
        `${vip()} > ${client()} ${answer} ttl=63`,
      );
      expect(drive.reasons(true)).toEqual({ XDP_SENT: 2 });
    });

    test('from a VLAN to none, and back', () => {
      serve(5);
      expect(play(buildFrame(`${inVlan} > ${vip()} ${first} vlan=5`))).toBe(
        `${node(40_000)} > ${pod(5)} ${first} ttl=63`,
      );
      expect(play(buildFrame(`${pod(5)} > ${node(40_000)} ${answer}`))).toBe(
        `${vip()} > ${inVlan} ${answer} ttl=63 vlan=5`,
      );
    });

    test('from one VLAN to another, and within one', () => {
      serve(6);
      expect(play(buildFrame(`${at.port(at.pod(7), 40_000)} > ${vip()} ${first} vlan=7`))).toBe(
        `${node(40_000)} > ${pod(6)} ${first} ttl=63 vlan=5`,
      );
      expect(play(buildFrame(`${inVlan} > ${vip()} ${first} vlan=5`))).toMatch(/ ttl=63 vlan=5$/);
    });

    test('the priority of a tag is no part of its VLAN, and does not go on', () => {
      serve(6);
      const frame = buildFrame(`${inVlan} > ${vip()} ${first}`);
      const { frame: out } = xdp.run(insert(frame, 0x81, 0x00, 0x60, 0x05));
      expect([...out.subarray(12, 16)]).toEqual([0x81, 0x00, 0x00, 0x05]);
    });

    test.each([
      ['an unknown VLAN', [0x81, 0x00, 0x00, 0x06]],
      ['a priority without a VLAN', [0x81, 0x00, 0x60, 0x00]],
      ['the number of a VLAN of the other type', [0x88, 0xa8, 0x00, 0x05]],
      ['two tags', [0x81, 0x00, 0x00, 0x05, 0x81, 0x00, 0x00, 0x07]],
      ["two tags, the first one a provider's", [0x88, 0xa8, 0x00, 0x05, 0x81, 0x00, 0x00, 0x05]],
    ])('%s: left', (_, tags) => {
      serve(5);
      const frame = buildFrame(`${inVlan} > ${vip()} ${first}`);
      expect(play(insert(frame, ...tags))).toBe('left');
      expect(drive.reasons(true)).toEqual({});
    });

    test('what is left of a VLAN has its tag as it came', () => {
      serve(8);
      const frame = buildFrame(`${inVlan} > ${vip()} ${first}`);
      expect(play(insert(frame, 0x81, 0x00, 0x70, 0x05))).toBe('left');
      expect(drive.reasons(true)).toEqual({ XDP_NO_NEIGHBOUR: 1 });
      const other = buildFrame(`${inVlan} > ${vip(81)} ${first}`);
      for (let length = 12; length <= other.length + 4; length += 1) {
        expect(play(insert(other, 0x81, 0x00, 0x70, 0x05).subarray(0, Math.max(length, 14)))).toBe(
          'left',
        );
      }
    });

    test('a sender that is reached by another VLAN, or by none: left', () => {
      serve(5);
      expect(play(buildFrame(`${inVlan} > ${vip()} ${first} vlan=7`))).toBe('left');
      expect(play(buildFrame(`${client()} > ${vip()} ${first} vlan=5`))).toBe('left');
      expect(play(buildFrame(`${inVlan} > ${vip()} ${first}`))).toBe('left');
      expect(drive.reasons(true)).toEqual({ XDP_OTHER_WAY: 3 });
    });

    test('a VLAN whose device below takes no frames, or that is not known yet: left', () => {
      serve(6);
      putDevice(UPLINK.ifindex, false);
      const frame = buildFrame(`${client()} > ${vip()} ${first}`);
      expect(play(frame)).toBe('left');
      xdp.close();
      xdp = new XdpDrive(drive.object);
      putDevice(UPLINK.ifindex, true);
      expect(play(frame)).toBe('left');
      expect(drive.reasons(true)).toEqual({ XDP_NO_TARGET: 2 });
    });

    test('frames of a port are those of its bond, and of the VLANs of that', () => {
      serve(5);
      drive.object.map('fl_device').delete(encodeU32(SECOND.ifindex));
      const frame = buildFrame(`${client()} > ${vip()} ${first}`);
      expect(play(frame, SECOND)).toBe('left');
      const [bond, port, vlan] = [UPLINK.ifindex, SECOND.ifindex, POD.ifindex];
      xdp.putLinks(
        ...linksOf([
          { ifindex: bond, ports: [port], vlans: [{ ifindex: vlan, tag: 0x88a8_0009 }] },
        ]),
      );
      const sent = `${node(40_000)} > ${pod(5)} ${first} ttl=63`;
      expect(play(frame, SECOND)).toBe(sent);
      const { frame: out } = xdp.run(
        insert(
          buildFrame(`${at.port(at.pod(7), 40_001)} > ${vip()} ${first}`),
          ...[0x88, 0xa8, 0x00, 0x09],
        ),
        SECOND,
      );
      expect(describeFrame(out)).toMatch(/ ttl=63$/);
      // To another station.
      frame[5] = 0x7f;
      expect(play(frame, SECOND)).toBe('left');
    });
  },
);
