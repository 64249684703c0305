// SPDX-License-Identifier: Apache-2.0
// Packets that are refused, dropped or malformed.
import { describe, expect, test } from 'vitest';
import { buildFrame } from '../../../support/packets/build.ts';
import { sharedDrive } from './support/shared-drive.ts';
import { names, PLACES, publish } from './support/stage.ts';

const drive = sharedDrive();

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, pod } = names(family);
  const at = PLACES[family];
  const unreachable = family === 'IPv4' ? 'icmp 3/3' : 'icmp6 1/4';
  const none = { backends: [] };

  test.each([
    ['TCP', 'tcp SYN', ''],
    ['TCP', 'tcp SYN payload=40', ''],
    ['UDP', 'udp payload=100', ''],
    ['UDP', 'udp payload=3 nosum', ''],
    ['SCTP', 'sctp payload=40', ''],
    ['TCP', 'tcp SYN', family === 'IPv4' ? 'options' : 'ext=hop,dst'],
  ] as const)('%s to a Service without backends is refused: %s %s', (protocol, word, more) => {
    publish(drive, family, { protocol, ...none });
    const line = drive.ingress(`${client()} > ${vip()} ${word} ${more}`);
    const [outer, inner] = line.split(' | ');
    expect(outer).toBe(`sent back: ${at.vip} > ${at.client} ${unreachable}`);
    expect(inner).toContain(`${client()} > ${vip()} ${protocol.toLowerCase()}`);
    expect(inner).toContain(more);
    expect(inner).not.toContain('!ip-checksum');
    expect(drive.reasons()).toEqual({ REFUSED_NO_BACKENDS: 1 });
  });

  /** Linux ends an association that begins if the error quotes its initiate tag, the second word of the first chunk. */
  test.each([
    [40, 20],
    [4, 12],
  ])('of SCTP with %i bytes of chunks it quotes %i bytes', (payload, quoted) => {
    publish(drive, family, { protocol: 'SCTP', ...none });
    const sent = buildFrame(`${client()} > ${vip()} sctp payload=${payload}`);
    const { frame } = drive.run('fl_ingress', sent);
    const [ipSize, answerSize] = family === 'IPv4' ? [20, 28] : [40, 48];
    expect(frame.length).toBe(14 + answerSize + ipSize + quoted);
    expect(frame.subarray(-quoted)).toEqual(sent.subarray(14 + ipSize, 14 + ipSize + quoted));
  });

  test('the answer goes to where the packet came from', () => {
    publish(drive, family, none);
    const sent = buildFrame(`${client()} > ${vip()} tcp SYN`);
    const { frame } = drive.run('fl_ingress', sent);
    expect(frame.subarray(0, 6)).toEqual(sent.subarray(6, 12));
    expect(frame.subarray(6, 12)).toEqual(sent.subarray(0, 6));
  });

  test.each(['tcp SYN', 'udp payload=6'])(
    'completing the checksum of the refused packet changes nothing in the answer: %s',
    (word) => {
      const protocol = word.startsWith('tcp') ? 'TCP' : 'UDP';
      publish(drive, family, { protocol, ...none });
      const { frame } = drive.run('fl_ingress', buildFrame(`${client()} > ${vip()} ${word}`));
      expectSettled(frame, family === 'IPv4' ? 14 + 28 + 20 : 14 + 48 + 40, protocol);
      drive.putBackend({ id: 1, address: at.pod(5), port: 8080 });
    },
  );

  test('TCP that belongs to no flow is answered by a RST that its sender accepts', () => {
    publish(drive, family);
    const back = `sent back: ${vip()} > ${client()}`;
    const sent = (word: string): string => drive.ingress(`${client()} > ${vip()} ${word}`);
    expect(sent('tcp ACK seq=5 ack=77 payload=3')).toBe(`${back} tcp RST seq=77`);
    expect(sent('tcp SYN ACK seq=5 ack=77')).toBe(`${back} tcp RST seq=77`);
    expect(sent('tcp FIN seq=5 payload=3')).toBe(`${back} tcp RST ACK ack=9`);
    expect(sent('tcp seq=4294967295 payload=4')).toBe(`${back} tcp RST ACK ack=3`);
    expect(drive.reasons()).toEqual({ UNKNOWN_CONNECTION: 4 });
    expect(sent('tcp RST')).toBe('dropped');
    const { frame } = drive.run('fl_ingress', buildFrame(`${client()} > ${vip()} tcp ACK ack=1`));
    expectSettled(frame, family === 'IPv4' ? 34 : 54, 'TCP');
    const now = Number(process.hrtime.bigint() / 1_000_000_000n);
    drive.putSettings({ resetUnknownFrom: now - 5 });
    expect(sent('tcp ACK')).toMatch(/^sent back: .* RST/);
  });

  test('a SYN with a FIN or a RST begins nothing', () => {
    publish(drive, family, { rule: { masquerade: true } });
    const sent = (word: string): string => drive.ingress(`${client()} > ${vip()} ${word}`);
    expect(sent('tcp SYN FIN seq=5')).toBe(`sent back: ${vip()} > ${client()} tcp RST ACK ack=7`);
    expect([sent('tcp SYN RST'), sent('tcp SYN FIN RST')]).toEqual(['dropped', 'dropped']);
    expect(drive.conns(family)).toEqual([]);
    expect(drive.reasons()).toMatchObject({ UNKNOWN_CONNECTION: 3 });
  });

  test('until some time it is left, for conntrack may know it from an earlier proxy', () => {
    publish(drive, family);
    const now = Number(process.hrtime.bigint() / 1_000_000_000n);
    drive.putSettings({ resetUnknownFrom: now + 60 });
    const line = `${client()} > ${vip()} tcp ACK`;
    expect(drive.through(line)).toBe(line);
    expect(drive.reasons()).toEqual({ UNKNOWN_CONNECTION: 1 });
    expect(drive.halfOpen(family)).toEqual([]);
    expect(drive.ingress(`${client()} > ${vip()} tcp SYN`)).toBe(`${client()} > ${pod(5)} tcp SYN`);
  });

  test('a Local policy without a local backend drops', () => {
    publish(drive, family, { ...none, rule: { whenEmpty: 'drop' } });
    expect(drive.ingress(`${client()} > ${vip()} tcp SYN`)).toBe('dropped');
    expect(drive.reasons()).toEqual({ DROPPED_NO_LOCAL_BACKENDS: 1 });
  });

  test('no answer goes to an address that is nobody’s or many’s', () => {
    publish(drive, family, none);
    const sources =
      family === 'IPv4'
        ? ['0.0.0.0', '224.0.0.1', '255.255.255.255', '127.0.0.1']
        : ['::', 'ff02::1', '::1'];
    for (const source of sources) {
      expect(drive.ingress(`${at.port(source, 9)} > ${vip()} tcp SYN`)).toBe('dropped');
    }
    expect(drive.reasons()).toMatchObject({ NOT_ANSWERED: sources.length });
  });

  test('answers are limited', () => {
    publish(drive, family, none);
    drive.putSettings({ answersPerSecond: 0 });
    expect(drive.ingress(`${client()} > ${vip()} tcp SYN`)).toBe('dropped');
    expect(drive.reasons()).toMatchObject({ ANSWER_LIMITED: 1 });
    drive.putSettings({ answersPerSecond: 5 });
    const lines = Array.from({ length: 40 }, () => drive.ingress(`${client()} > ${vip()} tcp SYN`));
    expect(lines).toContain('dropped');
    expect(lines[0]).toContain(unreachable);
  });

  const broken: readonly (readonly [string, string, string])[] = [
    ['is shorter than it says', 'length=200', 'TRUNCATED_HEADER'],
    [
      'ends in the TCP header',
      family === 'IPv4' ? 'cut=39 length=39' : 'cut=59 length=19',
      'TRUNCATED_HEADER',
    ],
    ['has a TCP header shorter than one', 'doff=4', 'BAD_HEADER'],
    ...(family === 'IPv4'
      ? ([
          ['has an IP header shorter than one', 'ihl=4', 'BAD_HEADER'],
          ['is shorter than its header', 'length=19', 'BAD_HEADER'],
          ['has a header longer than itself', 'ihl=15 length=40', 'BAD_HEADER'],
          ['has a first fragment without ports', 'frag=0+ take=8', 'TRUNCATED_HEADER'],
        ] as const)
      : ([
          ['has seven extension headers', 'ext=hop,dst,dst,dst,dst,dst,dst', 'TOO_MANY_HEADERS'],
          ['ends in an extension header', 'ext=hop cut=44 length=4', 'TRUNCATED_HEADER'],
          ['ends behind an extension header', 'ext=hop cut=50 length=10', 'TRUNCATED_HEADER'],
        ] as const)),
  ];
  test.each(broken)('a packet that %s is left and counted', (_, words, reason) => {
    publish(drive, family);
    const sent = buildFrame(`${client()} > ${vip()} tcp SYN ${words}`);
    for (const program of ['fl_ingress', 'fl_egress']) {
      const { action, frame } = drive.run(program, sent);
      expect(action).toBe(0xffffffff);
      expect(frame).toEqual(sent);
    }
    expect(drive.reasons()).toEqual({ [reason]: 2 });
    expect(drive.halfOpen(family)).toEqual([]);
  });

  test('six extension headers are read', () => {
    if (family === 'IPv4') return;
    publish(drive, family);
    const word = 'tcp SYN ext=hop,dst,dst,dst,dst,dst';
    expect(drive.ingress(`${client()} > ${vip()} ${word}`)).toContain('> [fd00:1:1::5]:8080');
  });
});

/** Writes what a device would write into the checksum field of the segment at `start`: the same as before. */
function expectSettled(frame: Uint8Array, start: number, protocol: 'TCP' | 'UDP'): void {
  const at = start + (protocol === 'TCP' ? 16 : 6);
  let sum = 0;
  for (let i = start; i < frame.length; i += 2) {
    sum += ((frame[i] ?? 0) << 8) | (frame[i + 1] ?? 0);
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  const field = ((frame[at] ?? 0) << 8) | (frame[at + 1] ?? 0);
  expect(0xffff - sum).toBe(field);
}
