// SPDX-License-Identifier: Apache-2.0
// Which dataplane carries out a decision: by capabilities, and with an agent by what is programmed.
import { describe, expect, test } from 'vitest';
import { BPF, bpfCapabilities, type Capabilities } from '../../../src/engines/capabilities.ts';
import type { HeldFrontend } from '../../../src/engines/dataplane.ts';
import { answer, type Serving } from '../../../src/observe/answer.ts';
import type { Packet } from '../../../src/plan/explain/packet.ts';
import { backend, clusterIp, planOf, servicePort } from '../engines/bpf/plans.ts';

const RULES = { ...BPF, dataplane: 'iptables' };
const PORT = servicePort('web', [clusterIp('10.96.0.10')], [backend('10.1.1.1')]);
const PLAN = planOf(PORT);
const held = (dataplane: string, port: number | undefined): HeldFrontend => ({
  dataplane,
  id: { family: 'IPv4', address: '10.96.0.10', port, protocol: port === undefined ? port : 'TCP' },
  service: 'default/web',
});
const packet = (destinationPort: number): Packet => ({
  ...{ source: '127.0.0.1', destination: '10.96.0.10', destinationPort, protocol: 'TCP' },
});
const asked = (serving: Serving, port = 80) => {
  const { dataplane, limits, steps } = answer(PLAN, packet(port), serving);
  return { dataplane, limits, last: steps.at(-1) };
};

describe('from manifests', () => {
  test('the first dataplane that can', () => {
    expect(asked({ dataplanes: [BPF, RULES] }).dataplane).toBe('bpf');
    expect(asked({ dataplanes: [RULES, BPF] }).dataplane).toBe('iptables');
  });
});

describe('SCTP to another port, which no dataplane serves', () => {
  const PACKETS = bpfCapabilities({ packets: true });
  const NODE_PORT = { ...clusterIp('*'), kind: 'NodePort', address: '192.0.2.1' } as const;
  const sctp = servicePort('sctp', [clusterIp('10.96.0.10'), NODE_PORT], [backend('10.1.1.1', 81)]);
  const lastStep = (source: string, destination: string, capabilities = PACKETS) => {
    const plan = planOf({ ...sctp, protocol: 'SCTP' });
    const asking = { ...packet(80), source, destination, protocol: 'SCTP' } as const;
    return answer(plan, asking, { dataplanes: [capabilities] }).steps.at(-1)?.reason;
  };
  const NOT_SERVED = 'not served by bpf: SCTP to backends with another port';

  test.each([
    [
      'to a ClusterIP is refused',
      '10.96.0.10',
      `${NOT_SERVED}; bpf refuses it, as other ports of a ClusterIP`,
    ],
    ['to another address is left alone', '192.0.2.1', NOT_SERVED],
  ])('%s', (_, destination, reason) => {
    expect(lastStep('203.0.113.9', destination)).toBe(reason);
  });

  test('is refused to nobody whose SCTP it does not see', () => {
    expect(lastStep('127.0.0.1', '10.96.0.10')).toBe(
      'not served by bpf: SCTP from processes of this node',
    );
    expect(lastStep('203.0.113.9', '10.96.0.10', BPF)).toBe(
      'not served by bpf: packets from outside',
    );
  });
});

describe('with packets, the address that the backend sees', () => {
  const PACKETS = bpfCapabilities({ packets: true });
  const masqueraded = { scope: 'cluster', whenEmpty: 'reject', masquerade: true } as const;
  const rules = { pod: masqueraded, host: masqueraded, outside: masqueraded };
  const balancer = { ...clusterIp('192.0.2.10'), kind: 'LoadBalancer', rules } as const;
  const sourceOf = (capabilities: Capabilities, ...areLocal: readonly boolean[]) => {
    const backends = areLocal.map((isLocal, index) => backend(`10.1.1.${index}`, 80, isLocal));
    const plan = planOf(servicePort('web', [balancer], backends));
    const asking = { ...packet(80), source: '203.0.113.9', destination: '192.0.2.10' };
    return answer(plan, asking, { dataplanes: [capabilities] }).source;
  };

  test("is the client's if every backend is on this node", () => {
    expect(sourceOf(PACKETS, true, true)).toBe('client');
    expect(sourceOf(PACKETS, true, false)).toBe('node');
    expect(sourceOf({ ...PACKETS, keepsLocalClients: false }, true)).toBe('node');
    expect(sourceOf(BPF, true)).toBeNull();
  });
});

describe('from an agent', () => {
  const MISSING = 'not programmed by bpf: see `fairlead status`';
  const missing = {
    ...{ dataplane: null, limits: [MISSING] },
    last: { rule: 'dataplane', result: 'none', reason: MISSING },
  };
  test('what is programmed is served', () => {
    const serving = { dataplanes: [BPF], held: [held('bpf', undefined), held('bpf', 80)] };
    expect(asked(serving)).toMatchObject({ dataplane: 'bpf', limits: [] });
    expect(asked(serving, 81)).toMatchObject({ dataplane: 'bpf', limits: [] });
  });

  test('what is not programmed, or by another dataplane only, is not', () => {
    expect(asked({ dataplanes: [BPF], held: [] })).toEqual(missing);
    expect(asked({ dataplanes: [BPF, RULES], held: [held('iptables', 80)] })).toEqual(missing);
    expect(asked({ dataplanes: [BPF], held: [held('bpf', 80)] }, 81)).toEqual(missing);
  });
});
