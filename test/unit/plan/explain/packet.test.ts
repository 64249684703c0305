// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { type Packet, parsePacket } from '../../../../src/plan/explain/packet.ts';

function packet(from: string, to: string): Packet {
  const parsed = parsePacket(from, to);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.packet;
}

describe('parsePacket', () => {
  it.each([
    ['10.1.1.9', '10.96.0.10:80/tcp', { destination: '10.96.0.10', protocol: 'TCP' }],
    ['010.1.1.9', '10.96.0.10:80', { source: '10.1.1.9', protocol: 'TCP', destinationPort: 80 }],
    ['fd00::9', '[FD00:96::10]:53/UDP', { destination: 'fd00:96::10', protocol: 'UDP' }],
    ['fd00::9', '[fd00:96::10]:53/sctp', { protocol: 'SCTP', destinationPort: 53 }],
    ['10.1.1.9:40000', '10.96.0.10:80', { source: '10.1.1.9', sourcePort: 40_000 }],
    ['[fd00::9]:1', '[fd00:96::10]:53', { source: 'fd00::9', sourcePort: 1 }],
  ])('%s -> %s', (from, to, expected) => {
    expect(packet(from, to)).toMatchObject(expected);
  });

  it.each([
    ['pod', '10.96.0.10:80', 'client pod'],
    ['10.1.1.9:0', '10.96.0.10:80', 'client 10.1.1.9:0'],
    ['10.1.1.9:65536', '10.96.0.10:80', 'client 10.1.1.9:65536'],
    ['10.1.1.9:', '10.96.0.10:80', 'client 10.1.1.9:'],
    ['10.1.1.9', '10.96.0.10', 'is not like'],
    ['10.1.1.9', '10.96.0.999:80', 'does not begin'],
    ['10.1.1.9', '10.96.0.10:0', 'port 0'],
    ['10.1.1.9', '10.96.0.10:65536', 'port 65536'],
    ['10.1.1.9', '10.96.0.10:80/icmp', 'protocol icmp'],
    ['fd00::9', 'fd00:96::10:80/tcp', 'is not like'],
    ['10.1.1.9', '[fd00:96::10]:80/tcp', 'different IP families'],
  ])('%s -> %s is refused with a reason', (from, to, reason) => {
    expect(parsePacket(from, to)).toMatchObject({
      ok: false,
      reason: expect.stringContaining(reason),
    });
  });
});
