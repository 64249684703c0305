// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { buildAll } from '../../../../src/plan/build.ts';
import { explain } from '../../../../src/plan/explain/explain.ts';
import { type Packet, parsePacket } from '../../../../src/plan/explain/packet.ts';
import { explanationJson, explanationText } from '../../../../src/plan/explain/text.ts';
import { node, ready, SETTINGS, service, slice } from '../support.ts';

const PLAN = buildAll(
  [
    node('n1', '192.0.2.11', { spec: { podCIDRs: ['10.1.1.0/24'] } }),
    node('n2', '192.0.2.12'),
    service('web', 10, { type: 'NodePort', ports: [{ name: 'http', port: 80, nodePort: 30080 }] }),
    slice('web', [ready('10.1.1.5'), ready('10.1.2.5', 'n2')]),
  ],
  SETTINGS,
);

function packet(from: string, to: string): Packet {
  const parsed = parsePacket(from, to);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.packet;
}

const textOf = (from: string, to: string): string =>
  explanationText(packet(from, to), explain(PLAN, packet(from, to)));

describe('parsePacket', () => {
  it.each([
    ['10.1.1.9', '10.96.0.10:80/tcp', { destination: '10.96.0.10', protocol: 'TCP' }],
    ['010.1.1.9', '10.96.0.10:80', { source: '10.1.1.9', protocol: 'TCP', destinationPort: 80 }],
    ['fd00::9', '[FD00:96::10]:53/UDP', { destination: 'fd00:96::10', protocol: 'UDP' }],
    ['fd00::9', '[fd00:96::10]:53/sctp', { protocol: 'SCTP', destinationPort: 53 }],
  ])('%s -> %s', (from, to, expected) => {
    expect(packet(from, to)).toMatchObject(expected);
  });

  it.each([
    ['pod', '10.96.0.10:80', 'client pod'],
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

describe('explanationText', () => {
  it('says it in a headline and gives every step a reason', () => {
    expect(textOf('10.1.1.9', '10.96.0.10:80/tcp')).toBe(
      [
        "10.1.1.9 -> 10.96.0.10:80/TCP: forwarded to one of 10.1.1.5:8080, 10.1.2.5:8080, with the client's address",
        'Service default/web',
        '',
        '  client                  pod here     10.1.1.9 is in 10.1.0.0/16',
        '  frontend                ClusterIP    10.96.0.10:80/TCP is Service default/web, port http',
        '  internalTrafficPolicy   all nodes    Cluster: endpoints of all nodes',
        '  endpoints               2 backends   ready',
        '  masquerade              no           the client is a pod of the cluster',
      ].join('\n'),
    );
  });

  it.each([
    ['198.51.100.9', '192.0.2.11:30080', "with this node's address"],
    ['10.1.1.9', '10.96.0.10:81', 'rejected'],
    ['10.1.1.9', '127.0.0.1:30080', 'dropped'],
    ['10.1.1.9', '192.0.2.12:30080', 'not a Service of this node'],
    [
      '10.1.1.9',
      '192.0.2.12:30080',
      '30080 is a NodePort, but 192.0.2.12 is no address of this node',
    ],
    ['10.1.2.9', '10.96.0.10:80', 'pod elsewhere'],
    ['192.0.2.11', '10.96.0.10:80', 'host process'],
    ['192.0.2.12', '10.96.0.10:80', '192.0.2.12 is Node n2'],
    ['198.51.100.9', '10.96.0.10:80', '198.51.100.9 is not in 10.1.0.0/16'],
  ])('%s -> %s: %s', (from, to, words) => {
    expect(textOf(from, to)).toContain(words);
  });
});

describe('explanationJson', () => {
  it('has all keys, always', () => {
    const keys = ['verdict', 'frontend', 'service', 'backends', 'masquerade', 'steps'];
    for (const to of ['10.96.0.10:80', '10.96.0.10:81', '10.9.9.9:80']) {
      const parsed: unknown = JSON.parse(explanationJson(explain(PLAN, packet('10.1.1.9', to))));
      expect(Object.keys(parsed as object)).toEqual(keys);
    }
    expect(
      JSON.parse(explanationJson(explain(PLAN, packet('10.1.1.9', '10.96.0.10:80')))),
    ).toMatchObject({
      verdict: 'forward',
      frontend: '10.96.0.10:80/TCP',
      service: 'default/web',
      backends: ['10.1.1.5:8080', '10.1.2.5:8080'],
      masquerade: false,
    });
  });
});
