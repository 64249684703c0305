// SPDX-License-Identifier: Apache-2.0
// Frames that are for another station than the device they come in by. In test runs that is the loopback device, whose MAC address is zero.
import { beforeEach, describe, expect, test } from 'vitest';
import { encodeU32 } from '../../../../../src/engines/bpf/layout/layout.ts';
import { encodePingKey } from '../../../../../src/engines/bpf/layout/packet-layout.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish } from '../support/stage.ts';

const drive = sharedDrive();
const OWN = new Uint8Array(6);
const ANOTHER = Uint8Array.of(2, 0, 0, 0, 0, 1);
const ALL = new Uint8Array(6).fill(0xff);

/** What the program at ingress does with a frame for this station. */
function play(line: string, station: Uint8Array): 'left' | 'taken' {
  const frame = buildFrame(line);
  frame.set(station);
  const { action, frame: out } = drive.run('fl_ingress', frame);
  return action === 0xffffffff && Buffer.compare(out, frame) === 0 ? 'left' : 'taken';
}

beforeEach(() => drive.putDevice({}, { dropsOthers: true }));

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const at = PLACES[family];
  const echo = family === 'IPv4' ? 'icmp 8/0' : 'icmp6 128/0';
  const error = family === 'IPv4' ? 'icmp 3/3' : 'icmp6 1/4';
  const flowCount = (): number => drive.conns(family).length;
  const lines: readonly [what: string, line: string][] = [
    ['a first packet', `${client()} > ${vip()} tcp SYN`],
    ['one to a Service without backends', `${client()} > ${vip(81)} tcp SYN`],
    ['one of no flow', `${client()} > ${vip()} tcp ACK`],
    ['a ping of a Service', `${at.client} > ${at.vip} ${echo}`],
  ];

  beforeEach(() => {
    drive.putSettings({ answerPing: true });
    drive.object.map('fl_ping').put(encodePingKey(at.vip), encodeU32(1));
    publish(drive, family, { rule: { masquerade: true } });
    drive.putFrontend({
      ...{ address: at.vip, port: 81, protocol: 'TCP' },
      rules: { host: { set: drive.putSet(1, []) } },
    });
  });

  test.each(lines)('%s is left, and counted nowhere', (_, line) => {
    expect(play(line, ANOTHER)).toBe('left');
    expect(drive.reasons()).toEqual({});
    expect(flowCount()).toBe(0);
  });

  test.each(lines)('%s is taken if it is for the device, or for all', (_, line) => {
    expect(play(line, OWN)).toBe('taken');
    expect(play(line, ALL)).toBe('taken');
  });

  test.each(lines)('%s is taken by the port of a master', (_, line) => {
    drive.putDevice({});
    expect(play(line, ANOTHER)).toBe('taken');
  });

  test('so is one of a device that the agent has not told of', () => {
    drive.object.map('fl_device').delete(Uint8Array.of(1, 0, 0, 0));
    expect(play(`${client()} > ${vip()} tcp SYN`, ANOTHER)).toBe('taken');
  });

  test('what belongs to a flow is left, too: a request, a reply, an error', () => {
    const request = `${client()} > ${vip()} tcp SYN`;
    drive.putDevice({});
    drive.through(request);
    const reply = `${pod(5)} > ${node(40_000)} tcp SYN ACK`;
    const quoted = `${node(40_000)} > ${pod(5)} tcp SYN`;
    const about = `${at.pod(5)} > ${at.node} ${error} | ${quoted}`;
    drive.putDevice({}, { dropsOthers: true });
    for (const line of [request, reply, about]) {
      expect(play(line, ANOTHER), line).toBe('left');
      expect(play(line, OWN), line).toBe('taken');
    }
  });
});

test('a packet from a loopback address is left to the stack, which drops it', () => {
  const line = '198.51.100.9:40000 > 127.0.0.1:80 tcp SYN';
  expect(play(line, ANOTHER)).toBe('left');
  expect(drive.reasons()).toEqual({});
  expect(play(line, OWN)).toBe('taken');
  expect(drive.reasons()).toEqual({ DROPPED_MARTIAN: 1 });
});
