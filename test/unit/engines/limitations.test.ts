// SPDX-License-Identifier: Apache-2.0
// What a dataplane cannot do for anything that it serves is the same in every view: one table, and docs/semantics.md
// has it as well.
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  BPF,
  bpfCapabilities,
  type Capabilities,
  IPTABLES,
  iptablesCapabilities,
  userspaceCapabilities,
} from '../../../src/engines/capabilities.ts';
import type { FrontendId } from '../../../src/engines/entry.ts';
import { LIMITATIONS, limitationsOf } from '../../../src/engines/limitations.ts';
import type { FrontendView } from '../../../src/engines/snapshot.ts';
import type { Algorithm } from '../../../src/model/types.ts';
import { answer } from '../../../src/observe/answer.ts';
import { serviceRows } from '../../../src/observe/service-rows.ts';
import type { Backend, Frontend, Plan, TrafficRule } from '../../../src/plan/types.ts';
import { backend, clusterIp, planOf, servicePort } from './bpf/plans.ts';

const portWith = (affinityTimeoutSeconds: number) =>
  servicePort('web', [clusterIp('10.96.0.10')], [backend('10.1.1.1')], { affinityTimeoutSeconds });

const VIEW: FrontendView = {
  dataplane: 'iptables',
  id: { family: 'IPv4', address: '10.96.0.10', port: 80, protocol: 'TCP' },
  port: {
    ...{ namespace: 'default', name: 'web', portName: 'http' },
    ...{ protocol: 'TCP', family: 'IPv4' },
  },
  internal: ['10.1.1.1:8080'],
  external: ['10.1.1.1:8080'],
  affinitySeconds: 600,
  internalEmpty: 'reject',
  externalEmpty: 'reject',
};

describe('iptables', () => {
  test('counts no connections, bypasses no cgroup, and remembers few clients', () => {
    expect(
      limitationsOf(IPTABLES).map(({ dataplane, reason }) => `${dataplane}: ${reason}`),
    ).toEqual([
      'iptables: connections are not counted or listed',
      'iptables: no cgroup can be bypassed',
      'iptables: session affinity remembers 100 clients for each endpoint',
      'iptables: backends are chosen at random instead of by round-robin, least-connections, source-hash, maglev',
      'iptables: there is no direct return: what goes to other nodes is masqueraded',
    ]);
  });

  test('remembers as many as the module was loaded for', () => {
    expect(limitationsOf(iptablesCapabilities(['IPv4'], 4_000))).toContainEqual({
      dataplane: 'iptables',
      code: 'AFFINITY_CLIENTS',
      reason: 'session affinity remembers 4000 clients for each endpoint',
    });
  });
});

test('userspace says where Services are, and whom endpoints see', () => {
  const lacking = (relays: 'addresses' | 'port-map') =>
    limitationsOf(userspaceCapabilities(relays)).map(({ code }) => code);
  const always = [
    'BYPASS',
    'ALGORITHMS',
    'DIRECT_RETURN',
    'CLIENT_ADDRESS',
    'PROXY_PROTOCOL',
    'AFFINITY',
    'RESETS',
    'AGENT',
    'VERIFY',
  ];
  expect(lacking('addresses')).toEqual(always);
  expect(lacking('port-map').toSorted()).toEqual([...always, 'PORT_MAP'].toSorted());
});

test('bpf has no limitation', () => {
  expect(limitationsOf(BPF)).toEqual([]);
});

describe('a Service with session affinity', () => {
  const packet = { source: '127.0.0.1', destination: '10.96.0.10', destinationPort: 80 } as const;
  const stepsBy = (seconds: number, capabilities: typeof BPF) =>
    answer(
      planOf(portWith(seconds)),
      { ...packet, protocol: 'TCP' },
      { dataplanes: [capabilities] },
    )
      .steps.filter(({ rule }) => rule === 'affinity')
      .map(({ result, reason }) => `${result}: ${reason}`);

  test('explain says how many clients iptables remembers', () => {
    expect(stepsBy(600, IPTABLES)).toEqual([
      expect.stringMatching(/^ClientIP: /),
      'limited: iptables: session affinity remembers 100 clients for each endpoint',
    ]);
    expect(stepsBy(600, BPF)).toEqual([expect.stringMatching(/^ClientIP: /)]);
    expect(stepsBy(0, IPTABLES)).toEqual([]);
  });

  test('so does `services`, where iptables has programmed it', () => {
    const limits = (seconds: number, views: readonly FrontendView[]) =>
      serviceRows(planOf(portWith(seconds)), views, [BPF, IPTABLES]).map(
        ({ affinityClients }) => affinityClients,
      );
    expect(limits(600, [VIEW])).toEqual([100]);
    expect(limits(600, [{ ...VIEW, dataplane: 'bpf' }])).toEqual([undefined]);
    expect(limits(600, [VIEW, { ...VIEW, dataplane: 'bpf' }])).toEqual([100]);
    expect(limits(0, [VIEW])).toEqual([undefined]);
  });
});

describe('a Service with an algorithm', () => {
  const rr = (algorithm: Algorithm) => {
    const backends = [backend('10.1.1.1'), backend('10.1.1.2')];
    return planOf(servicePort('web', [clusterIp('10.96.0.10')], backends, { algorithm }));
  };
  const packet = { source: '127.0.0.1', destination: '10.96.0.10', destinationPort: 80 } as const;
  const stepsBy = (algorithm: Algorithm, capabilities: typeof BPF) =>
    answer(rr(algorithm), { ...packet, protocol: 'TCP' }, { dataplanes: [capabilities] })
      .steps.filter(({ rule }) => rule === 'algorithm')
      .map(({ result }) => result);

  test('explain says what iptables does instead', () => {
    expect(stepsBy('round-robin', IPTABLES)).toEqual(['round-robin', 'random']);
    expect(stepsBy('weighted-round-robin', IPTABLES)).toEqual([
      'weighted-round-robin',
      'weighted-random',
    ]);
    expect(stepsBy('source-hash', IPTABLES)).toEqual(['source-hash', 'weighted-random']);
    expect(stepsBy('weighted-random', IPTABLES)).toEqual(['weighted-random']);
    expect(stepsBy('round-robin', BPF)).toEqual(['round-robin']);
  });

  test('so does `services`, where iptables has programmed it', () => {
    const used = (algorithm: Algorithm, views: readonly FrontendView[]) =>
      serviceRows(rr(algorithm), views, [BPF, IPTABLES]).map(
        ({ algorithm: asked, usedAlgorithm }) => [asked, usedAlgorithm],
      );
    expect(used('round-robin', [VIEW])).toEqual([['round-robin', 'random']]);
    expect(used('round-robin', [{ ...VIEW, dataplane: 'bpf' }])).toEqual([
      ['round-robin', undefined],
    ]);
    expect(used('random', [VIEW])).toEqual([['random', undefined]]);
  });
});

describe('a Service with direct return', () => {
  const DIRECT = bpfCapabilities({ packets: true });
  const outside = { ...clusterIp('').rules.outside, masquerade: true };
  const frontend = (rule: TrafficRule): Frontend => ({
    ...clusterIp('203.0.113.10'),
    kind: 'LoadBalancer',
    rules: { ...clusterIp('').rules, outside: rule },
  });
  const backends = [
    backend('10.1.1.5', 8080, true),
    { ...backend('10.1.2.5'), node: 'n2' },
    { ...backend('10.1.3.5'), node: 'n3' },
  ];
  const peer = { addresses: ['192.0.2.12'], directReturnPort: 6081 };
  const planWith = (rule: TrafficRule, count = backends.length): Plan => {
    const port = servicePort('web', [frontend(rule)], backends.slice(0, count));
    const plan = planOf({ ...port, forwarding: 'dsr' });
    return { ...plan, node: { ...plan.node, peers: new Map([['n2', peer]]) } };
  };
  const direct = { ...outside, directReturn: true } as const;
  const packet = { source: '198.51.100.9', destination: '203.0.113.10', destinationPort: 80 };
  const asked = (plan: Plan, dataplanes: readonly Capabilities[]) =>
    answer(plan, { ...packet, protocol: 'TCP' }, { dataplanes });
  const steps = (plan: Plan, dataplanes: readonly Capabilities[]) =>
    asked(plan, dataplanes)
      .steps.filter(({ rule }) => rule === 'forwarding')
      .map(({ result, reason }) => `${result}: ${reason}`);

  test('explain names the node and its address, or why it is masqueraded', () => {
    expect(steps(planWith(direct), [DIRECT])).toEqual([
      'dsr: in Geneve to Node n2 (192.0.2.12), which answers the client from 203.0.113.10; masqueraded for 10.1.3.5: Node n3 is not known',
    ]);
    expect(steps(planWith(direct, 1), [DIRECT])).toEqual(['dsr: every backend is on this node']);
    expect(steps(planWith(outside), [DIRECT])).toEqual([
      'dsr: TCP to other nodes is masqueraded'.replace('dsr:', 'snat: dsr:'),
    ]);
  });

  const idOf = ({ destination, destinationPort: port }: typeof packet): FrontendId => ({
    ...{ family: 'IPv4', protocol: 'TCP', address: destination, port },
  });

  const ipip = { ...direct, ipip: true } as const;
  const realServers = (rule: TrafficRule, ...others: readonly Backend[]): Plan =>
    planOf({
      ...servicePort('web', [frontend(rule)], [backend('192.0.2.80'), ...others]),
      forwarding: 'ipip',
    });
  const NO_SERVER = { ...backend('10.1.2.5'), node: 'n2' };

  test('explain names real servers, and says which backends are none', () => {
    const plan = realServers(ipip, NO_SERVER);
    expect(steps(plan, [DIRECT])).toEqual([
      'ipip: in IPIP to 192.0.2.80, which answers the client from 203.0.113.10; masqueraded for 10.1.2.5: it is on Node n2, no real server',
    ]);
    expect(asked(plan, [DIRECT]).source).toBe('node');
    expect(asked(realServers(ipip), [DIRECT]).source).toBe('client');
    expect(asked(realServers(ipip), [IPTABLES]).source).toBe('node');
  });

  test('and why requests to a real server are masqueraded', () => {
    expect(steps(realServers(outside), [DIRECT])).toEqual([
      'snat: ipip: an endpoint has another port, so that all is masqueraded: see `fairlead status`',
    ]);
    expect(steps(realServers(ipip), [IPTABLES])[1]).toBe(
      'snat: iptables has no direct return on this node: all of them are masqueraded',
    );
  });

  test('`services` shows ipip, and snat where it is not used', () => {
    const used = (rule: TrafficRule, dataplane: string) =>
      serviceRows(
        realServers(rule),
        [{ ...VIEW, dataplane, id: idOf(packet) }],
        [DIRECT, IPTABLES],
      ).map(({ forwarding, usedForwarding }) => [forwarding, usedForwarding]);
    expect(used(ipip, 'bpf')).toEqual([['ipip', undefined]]);
    expect(used(outside, 'bpf')).toEqual([['ipip', 'snat']]);
    expect(used(ipip, 'iptables')).toEqual([['ipip', 'snat']]);
  });

  test('the client keeps its address if every backend is here or takes direct return', () => {
    expect(asked(planWith(direct, 2), [DIRECT]).source).toBe('client');
    expect(asked(planWith(direct, 3), [DIRECT]).source).toBe('node');
    expect(asked(planWith(outside, 2), [DIRECT]).source).toBe('node');
    expect(asked(planWith(direct, 2), [IPTABLES]).source).toBe('node');
  });

  describe('on a kernel that makes no room for headers', () => {
    const WHY = 'IPv4 in Geneve cannot be sent ($&)';
    const UNABLE = bpfCapabilities({ packets: true, noDirectReturn: WHY });

    test('status has it among the limitations of bpf, unless packets are not its own', () => {
      expect(limitationsOf(UNABLE)).toEqual([
        {
          ...{ dataplane: 'bpf', code: 'DIRECT_RETURN' },
          reason: `there is no direct return (${WHY}): what goes to other nodes is masqueraded`,
        },
      ]);
      expect(limitationsOf(bpfCapabilities({ packets: false, noDirectReturn: WHY }))).toEqual([]);
      expect(UNABLE.directReturn).toBe(false);
    });

    test.each([
      ['dsr', planWith(direct, 2)],
      ['ipip', realServers(ipip)],
    ])('explain says why %s is snat', (_, plan) => {
      expect(steps(plan, [UNABLE])[1]).toBe(
        `snat: bpf has no direct return on this node (${WHY}): all of them are masqueraded`,
      );
      expect(asked(plan, [UNABLE]).source).toBe('node');
    });

    test('`services` shows snat', () => {
      const view = { ...VIEW, dataplane: 'bpf', id: idOf(packet) };
      expect(serviceRows(planWith(direct), [view], [UNABLE])).toEqual([
        expect.objectContaining({ forwarding: 'dsr', usedForwarding: 'snat' }),
      ]);
    });
  });

  test('explain says that iptables cannot, and so does `services`', () => {
    expect(steps(planWith(direct), [IPTABLES])[1]).toBe(
      'snat: iptables has no direct return on this node: all of them are masqueraded',
    );
    const used = (rule: TrafficRule, dataplane: string) =>
      serviceRows(
        planWith(rule),
        [{ ...VIEW, dataplane, id: idOf(packet) }],
        [DIRECT, IPTABLES],
      ).map(({ forwarding, usedForwarding }) => [forwarding, usedForwarding]);
    expect(used(direct, 'bpf')).toEqual([['dsr', undefined]]);
    expect(used(direct, 'iptables')).toEqual([['dsr', 'snat']]);
    expect(used(outside, 'bpf')).toEqual([['dsr', 'snat']]);
  });
});

test('docs/semantics.md has each, and nothing else', () => {
  const page = readFileSync(new URL('../../../docs/semantics.md', import.meta.url), 'utf8');
  const [, section = ''] = page.split('\n## What each engine cannot do\n');
  const codes = [...section.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, code]) => code);
  expect(codes.toSorted()).toEqual(Object.keys(LIMITATIONS).toSorted());
});
