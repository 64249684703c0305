// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { explanationText } from '../../../../src/cli/view/explanation-text.ts';
import { BPF } from '../../../../src/engines/capabilities.ts';
import { answer } from '../../../../src/observe/answer.ts';
import { type Packet, parsePacket } from '../../../../src/plan/explain/packet.ts';
import { buildAll } from '../../../support/plan/build-all.ts';
import { node, ready, SETTINGS, service, slice } from '../../plan/support.ts';

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
  explanationText(packet(from, to), answer(PLAN, packet(from, to), { dataplanes: [BPF] }));

describe('explanationText', () => {
  it('has a headline and a reason for every step', () => {
    expect(textOf('10.1.1.9', '10.96.0.10:80/tcp')).toBe(
      [
        "10.1.1.9 -> 10.96.0.10:80/TCP: forward to one of 10.1.1.5:8080, 10.1.2.5:8080, with the client's address as source",
        'Service default/web',
        '',
        '  client                  pod here     10.1.1.9 is in 10.1.0.0/16',
        '  frontend                ClusterIP    10.96.0.10:80/TCP is Service default/web, port http',
        '  internalTrafficPolicy   all nodes    Cluster: endpoints of all nodes',
        '  endpoints               2 backends   ready',
        '  algorithm               random       each connection gets one at random',
        '  masquerade              no           the client is a pod of the cluster',
        '  dataplane               bpf          served by bpf',
      ].join('\n'),
    );
  });

  it.each([
    ['198.51.100.9', '192.0.2.11:30080', "with the node's address as source"],
    ['198.51.100.9', '192.0.2.11:30080', 'decided: forward to one of'],
    ['198.51.100.9', '192.0.2.11:30080', '; not served by bpf: packets from outside'],
    ['10.1.1.9', '192.0.2.11:30080', "with the client's address as source"],
    ['10.1.1.9', '192.0.2.11:30080', 'masquerade: backends see the client address'],
    ['10.1.1.9', '10.96.0.10:81', 'reject'],
    ['10.1.1.9', '10.96.0.10:81/sctp', '; not served by bpf: SCTP'],
    ['10.1.1.9', '127.0.0.1:30080', "127.0.0.1 is the pod's own loopback"],
    ['198.51.100.9', '127.0.0.1:30080', 'drop'],
    ['10.1.1.9', '192.0.2.12:30080', 'not a Service address on this node'],
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
