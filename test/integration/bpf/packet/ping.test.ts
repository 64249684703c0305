// SPDX-License-Identifier: Apache-2.0
// Echo requests to addresses of Services.
import { beforeEach, describe, expect, test } from 'vitest';
import { encodeU32 } from '../../../../src/engines/bpf/layout/layout.ts';
import { encodePingKey } from '../../../../src/engines/bpf/layout/packet-layout.ts';
import { buildFrame } from '../../../support/packets/build.ts';
import { describeFrame } from '../../../support/packets/describe.ts';
import { sharedDrive } from './support/shared-drive.ts';
import { PLACES, publish } from './support/stage.ts';

const drive = sharedDrive({ answerPing: true }, { withoutMac: true });

const TTL = { IPv4: 22, IPv6: 21 } as const;

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const at = PLACES[family];
  const [icmp, request, reply] =
    family === 'IPv4' ? ['icmp', '8/0', '0/0'] : ['icmp6', '128/0', '129/0'];
  const ping = (to: string, words = '', from: string = at.client): string =>
    drive.ingress(`${from} > ${to} ${icmp} ${request} mtu=12345 payload=40 ${words}`.trim());
  const left = (to: string, words = '', from: string = at.client): string =>
    `${from} > ${to} ${icmp} ${request} mtu=12345 payload=40 ${words}`.trim();

  beforeEach(() => {
    publish(drive, family, { backends: [] });
    drive.object.map('fl_ping').put(encodePingKey(at.vip), encodeU32(1));
  });

  test('the request becomes its reply, with its identifier, number and data', () => {
    const answer = `sent back: ${at.vip} > ${at.client} ${icmp} ${reply} mtu=12345 payload=40`;
    expect(ping(at.vip)).toBe(answer);
    expect(drive.reasons()).toEqual({ PING_ANSWERED: 1 });
  });

  test('it goes to where it came from, with a TTL of its own', () => {
    const sent = buildFrame(`${at.client} > ${at.vip} ${icmp} ${request}`);
    const { frame } = drive.run('fl_ingress', sent);
    expect(frame.subarray(0, 6)).toEqual(sent.subarray(6, 12));
    expect(frame.subarray(6, 12)).toEqual(sent.subarray(0, 6));
    expect(frame[TTL[family]]).toBe(64);
  });

  test('without an Ethernet header too', () => {
    // A test run takes the EtherType from where a network packet has bytes 5 and 6 of its source.
    const from = family === 'IPv4' ? '8.0.0.9' : '2001:db8:86dd::9';
    const line = `${from} > ${at.vip} ${icmp} ${request} payload=40`;
    const answer = `sent back: ${at.vip} > ${from} ${icmp} ${reply} payload=40`;
    expect(drive.withoutMac('fl_ingress_l3', line)).toContain(answer);
  });

  test('an address that is no Service’s does not answer', () => {
    expect(ping(at.node)).toBe(left(at.node));
    expect(drive.reasons()).toEqual({});
  });

  test('nor does any by default', () => {
    drive.putSettings({});
    expect(ping(at.vip)).toBe(left(at.vip));
  });

  const others = family === 'IPv4' ? ['0/0', '8/1', '13/0'] : ['129/0', '128/1', '133/0'];
  test.each(others)('nothing else is answered: %s', (type) => {
    const line = `${at.client} > ${at.vip} ${icmp} ${type}`;
    expect(drive.ingress(line)).not.toContain('sent back');
    expect(drive.reasons()).toEqual({});
  });

  test.each([family === 'IPv4' ? 'options' : 'ext=hop', 'frag=0+'])('left alone: %s', (words) => {
    expect(ping(at.vip, words)).not.toContain('sent back');
  });

  test('a source that no station has gets no answer', () => {
    const from = family === 'IPv4' ? '224.0.0.1' : 'ff02::1';
    expect(ping(at.vip, '', from)).toBe('dropped');
    expect(drive.reasons()).toEqual({ NOT_ANSWERED: 1 });
  });

  test('no more than so many a second', () => {
    drive.putSettings({ answerPing: true, answersPerSecond: 0 });
    expect(ping(at.vip)).toBe('dropped');
    expect(drive.reasons()).toEqual({ ANSWER_LIMITED: 1 });
  });

  test('a wrong checksum stays wrong', () => {
    const sent = buildFrame(`${at.client} > ${at.vip} ${icmp} ${request} payload=40`);
    const last = sent.length - 1;
    sent[last] = (sent[last] ?? 0) ^ 1;
    const { frame } = drive.run('fl_ingress', sent);
    expect(describeFrame(frame)).toContain('!icmp-checksum');
  });
});
