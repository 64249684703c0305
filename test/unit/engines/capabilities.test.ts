// SPDX-License-Identifier: Apache-2.0
// Which dataplane serves what: the capabilities for each kind of frontend, protocol and client.
import { describe, expect, test } from 'vitest';
import {
  BPF,
  bpfCapabilities,
  keepsLocalClient,
  servedBy,
  servedByTexts,
  unservedTexts,
} from '../../../src/engines/capabilities.ts';
import type { FrontendKind, Protocol } from '../../../src/model/types.ts';
import type { Backend, Frontend, TrafficRule } from '../../../src/plan/types.ts';
import { backend } from './bpf/plans.ts';
import { LAST_RESORT } from './support.ts';

const rule = (masquerade = false): TrafficRule => ({
  scope: 'cluster',
  whenEmpty: 'reject',
  masquerade,
});

function frontend(kind: FrontendKind, traits: Partial<Frontend> = {}): Frontend {
  const rules = { pod: rule(), host: rule(), outside: rule() };
  return { kind, address: '10.96.0.10', port: 80, rules, ...traits };
}

const port = (protocol: Protocol = 'TCP', ...backends: readonly Backend[]) =>
  ({ family: 'IPv4', protocol, cluster: backends, local: [] }) as const;

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
      frontend('LoadBalancer', { isFiltered: true }),
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
    expect(servedBy([BPF], port(), asked, 'pod').dataplane).toBe('bpf');
    expect(servedBy([BPF], port(), asked, 'outside')).toEqual({
      dataplane: undefined,
      limitations: [{ dataplane: 'bpf', code: 'ORIGIN', reason: 'packets from outside' }],
      differences: [],
    });
  });

  test('a pod that the plan masquerades is seen by its backends with its own address', () => {
    const rules = { pod: rule(true), host: rule(true), outside: rule(true) };
    const served = servedBy([BPF], port(), frontend('NodePort', { rules }), 'pod');
    expect(served.dataplane).toBe('bpf');
    expect(served.differences).toMatchObject([{ dataplane: 'bpf', code: 'MASQUERADE' }]);
  });
});

describe('with bpf for packets too', () => {
  const PACKETS = bpfCapabilities({ packets: true });
  const RANGED = { isFiltered: true } as const;
  const HOST_SCTP = 'not served by bpf: SCTP from processes of this node';
  const same = backend('10.1.1.5', 80);
  const other = backend('10.1.1.5', 8080);
  test.each([
    ['a NodePort', port(), frontend('NodePort'), []],
    ['an external IP over UDP', port('UDP'), frontend('ExternalIP'), []],
    ['a load balancer with source ranges', port(), frontend('LoadBalancer', RANGED), []],
    ['SCTP to the same port', port('SCTP', same), frontend('ClusterIP'), [HOST_SCTP]],
    ['SCTP without backends', port('SCTP'), frontend('ClusterIP'), [HOST_SCTP]],
    [
      'SCTP to another port',
      port('SCTP', same, other),
      frontend('ClusterIP'),
      ['not served by bpf: SCTP to backends with another port', HOST_SCTP],
    ],
    ['TCP to another port', port('TCP', other), frontend('ClusterIP'), []],
  ])('%s', (_, asked, address, texts) => {
    expect(unservedTexts([PACKETS], asked, address)).toEqual(texts);
  });

  test('packets are masqueraded, sockets that a hook translates are not', () => {
    const rules = { pod: rule(true), host: rule(true), outside: rule(true) };
    const asked = frontend('NodePort', { rules });
    expect(servedBy([PACKETS], port(), asked, 'outside').differences).toEqual([]);
    expect(servedBy([PACKETS], port(), asked, 'pod').differences).toMatchObject([
      { code: 'MASQUERADE' },
    ]);
  });

  test('what the node itself sends goes to the next dataplane', () => {
    const both = [PACKETS, LAST_RESORT];
    const asked = frontend('ClusterIP');
    expect(servedBy(both, port('SCTP', same), asked, 'pod').dataplane).toBe('bpf');
    expect(servedBy(both, port('SCTP', same), asked, 'host').dataplane).toBe('iptables');
    expect(unservedTexts(both, port('SCTP', same), asked)).toEqual([]);
  });

  test('clients of backends here keep their address at external addresses, if the dataplane knows the backend', () => {
    expect(keepsLocalClient(PACKETS, frontend('NodePort'))).toBe(true);
    expect(keepsLocalClient(PACKETS, frontend('ClusterIP'))).toBe(false);
    expect(keepsLocalClient(LAST_RESORT, frontend('NodePort'))).toBe(false);
  });
});

describe('with another dataplane behind it', () => {
  test('each connection is served by the first that can', () => {
    const asked = frontend('NodePort');
    const both = [BPF, LAST_RESORT];
    expect(servedBy(both, port(), asked, 'pod').dataplane).toBe('bpf');
    expect(servedBy(both, port(), asked, 'outside').dataplane).toBe('iptables');
    expect(servedBy(both, port('SCTP'), asked, 'pod')).toMatchObject({
      dataplane: 'iptables',
      limitations: [{ dataplane: 'bpf', code: 'PROTOCOL', reason: 'SCTP' }],
    });
    expect(unservedTexts(both, port('SCTP'), asked)).toEqual([]);
  });
});

describe('who serves a frontend, of those that have programmed it', () => {
  const both = [BPF, LAST_RESORT];
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
