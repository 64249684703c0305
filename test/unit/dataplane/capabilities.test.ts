// SPDX-License-Identifier: Apache-2.0
// Which dataplane serves what: the capabilities for each kind of frontend, protocol and client.
import { describe, expect, test } from 'vitest';
import {
  BPF,
  type Capabilities,
  originOf,
  servedBy,
  servedByTexts,
  unservedTexts,
} from '../../../src/dataplane/capabilities.ts';
import type { Protocol } from '../../../src/model/types.ts';
import type { Frontend, FrontendKind, TrafficRule } from '../../../src/plan/types.ts';

const rule = (masquerade = false): TrafficRule => ({
  scope: 'cluster',
  whenEmpty: 'reject',
  masquerade,
});

function frontend(kind: FrontendKind, traits: Partial<Frontend> = {}): Frontend {
  const rules = { pod: rule(), host: rule(), outside: rule() };
  return { kind, address: '10.96.0.10', port: 80, rules, ...traits };
}

const port = (protocol: Protocol = 'TCP') => ({ family: 'IPv4', protocol }) as const;

/** A second dataplane that serves the rest. */
const RULES: Capabilities = {
  dataplane: 'iptables',
  families: ['IPv4', 'IPv6'],
  protocols: ['TCP', 'UDP', 'SCTP'],
  origins: ['socket', 'packet'],
  hasSourceRanges: true,
  hasMasquerade: true,
  keepsLocalClients: false,
};

describe('with bpf alone', () => {
  const OUTSIDE = 'not served by bpf: packets from outside';
  const rows: readonly [what: string, Protocol, Frontend, texts: readonly string[]][] = [
    ['a ClusterIP', 'TCP', frontend('ClusterIP'), []],
    ['a ClusterIP over UDP', 'UDP', frontend('ClusterIP'), []],
    ['a ClusterIP over SCTP', 'SCTP', frontend('ClusterIP'), ['not served by bpf: SCTP']],
    ['a NodePort', 'TCP', frontend('NodePort'), [OUTSIDE]],
    ['an external IP', 'TCP', frontend('ExternalIP'), [OUTSIDE]],
    [
      'a load balancer with source ranges',
      'TCP',
      frontend('LoadBalancer', { sourceRanges: ['192.0.2.0/24'] }),
      ['not served by bpf: source ranges', OUTSIDE],
    ],
    ['a NodePort over SCTP', 'SCTP', frontend('NodePort'), ['not served by bpf: SCTP', OUTSIDE]],
  ];
  for (const [what, protocol, asked, texts] of rows) {
    test(`${what}: ${texts.join('; ') || 'served'}`, () => {
      expect(unservedTexts([BPF], port(protocol), asked)).toEqual(texts);
    });
  }

  test('sockets and packets of one NodePort differ', () => {
    const asked = frontend('NodePort');
    expect(servedBy([BPF], port(), asked, 'socket').dataplane).toBe('bpf');
    expect(servedBy([BPF], port(), asked, 'packet')).toEqual({
      dataplane: undefined,
      limits: [{ dataplane: 'bpf', code: 'ORIGIN', reason: 'packets from outside' }],
      differences: [],
    });
  });

  test('a pod that the plan masquerades is seen by its backends with its own address', () => {
    const rules = { pod: rule(true), host: rule(true), outside: rule(true) };
    const served = servedBy([BPF], port(), frontend('NodePort', { rules }), 'socket');
    expect(served.dataplane).toBe('bpf');
    expect(served.differences).toMatchObject([{ dataplane: 'bpf', code: 'MASQUERADE' }]);
  });
});

describe('with another dataplane behind it', () => {
  test('each connection is served by the first that can', () => {
    const asked = frontend('NodePort');
    const both = [BPF, RULES];
    expect(servedBy(both, port(), asked, 'socket').dataplane).toBe('bpf');
    expect(servedBy(both, port(), asked, 'packet').dataplane).toBe('iptables');
    expect(servedBy(both, port('SCTP'), asked, 'socket')).toMatchObject({
      dataplane: 'iptables',
      limits: [{ dataplane: 'bpf', code: 'PROTOCOL', reason: 'SCTP' }],
    });
    expect(unservedTexts(both, port('SCTP'), asked)).toEqual([]);
  });
});

describe('who serves a frontend, of those that have programmed it', () => {
  const both = [BPF, RULES];
  test.each([
    [[], []],
    [['bpf'], ['bpf']],
    [['iptables'], ['iptables']],
    [
      ['bpf', 'iptables'],
      ['bpf: sockets of this node', 'iptables: packets from outside'],
    ],
    [
      ['bpf', 'iptables', 'tc'],
      ['bpf: sockets of this node', 'iptables: packets from outside', 'tc'],
    ],
  ])('%j: %j', (programmedBy, texts) => {
    expect(servedByTexts(both, port(), frontend('NodePort'), programmedBy)).toEqual(texts);
  });
});

test('pods and processes of this node open sockets, everyone else sends packets', () => {
  expect(originOf('pod here')).toBe('socket');
  expect(originOf('host process')).toBe('socket');
  for (const kind of ['pod elsewhere', 'other node', 'outside'] as const) {
    expect(originOf(kind)).toBe('packet');
  }
});
