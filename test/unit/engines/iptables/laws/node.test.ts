// SPDX-License-Identifier: Apache-2.0
// What the rules do with packets that `explain` is not asked about: later packets of connections, pings, health checks,
// and on a node whose own firewall drops what nobody accepts.
import { describe, expect, it } from 'vitest';
import { render } from '../../../../../src/engines/iptables/rows/render.ts';
import type { RenderSettings } from '../../../../../src/engines/iptables/rows/settings.ts';
import { isServiceChain } from '../../../../../src/engines/iptables/rules/names.ts';
import type { ObjectChange } from '../../../../../src/model/types.ts';
import { CLUSTER, fixture, named } from '../../../../conformance/story.ts';
import type { Hook, TracedPacket, World } from '../../../../support/iptables/packet.ts';
import { DEFAULTS } from '../../../../support/iptables/story-rulesets.ts';
import { trace } from '../../../../support/iptables/trace.ts';
import { verdictOf } from '../../../../support/iptables/verdict.ts';
import { createPlanner } from '../../../../support/plan/planner.ts';

const NODE = '192.0.2.11';
const POLICY = { spec: { externalTrafficPolicy: 'Local', healthCheckNodePort: 32000 } };

const planner = createPlanner(fixture.settings);
planner.apply(CLUSTER.changes);
const { plan } = planner.apply(
  [{ use: 'balancer', patch: POLICY }, 'ab'].map(
    (text): ObjectChange => ({
      type: 'put',
      ...named(text),
    }),
  ),
);

const PACKET: TracedPacket = {
  protocol: 'TCP',
  source: '198.51.100.9',
  sourcePort: 40_000,
  destination: NODE,
  destinationPort: 32_000,
  inInterface: 'eth0',
  state: 'NEW',
  mark: 0,
  isDnat: false,
};

interface Node {
  readonly settings?: Partial<RenderSettings>;
  readonly droppedByPolicy?: readonly Hook[];
}

function verdict(packet: Partial<TracedPacket>, { settings, droppedByPolicy = [] }: Node = {}) {
  const world: World = {
    isLocal: (address) => address === NODE || address.startsWith('127.'),
    isRecent: () => false,
    snatAddress: NODE,
    droppedByPolicy,
  };
  const [ruleset] = render(plan, { ...DEFAULTS, ...settings });
  if (ruleset === undefined) throw new Error('no rules of IPv4');
  return verdictOf(trace(ruleset, world, { ...PACKET, ...packet })).verdict;
}

const POD = { source: '10.1.1.9', inInterface: 'veth1' };
const TO_SERVICE = { ...POD, destination: '10.96.0.10', destinationPort: 80 };
const FIREWALL: Node = { droppedByPolicy: ['INPUT', 'FORWARD'] };

describe('later packets of a connection', () => {
  it('are not refused for lack of a frontend', () => {
    const unknown = { ...TO_SERVICE, destinationPort: 81 };
    expect(verdict(unknown)).toBe('reject');
    expect(verdict({ ...unknown, state: 'ESTABLISHED' })).toBe('unmatched');
    const sent = { ...unknown, source: NODE, inInterface: undefined };
    expect(verdict(sent)).toBe('reject');
    expect(verdict({ ...sent, state: 'ESTABLISHED' })).toBe('unmatched');
    const isTcpLiberal = { settings: { isTcpLiberal: true } };
    expect(verdict({ ...unknown, state: 'INVALID' }, isTcpLiberal)).toBe('unmatched');
  });

  it('that conntrack does not know are dropped where they would be forwarded', () => {
    const stray = { ...POD, destination: '198.51.100.9', state: 'INVALID' } as const;
    expect(verdict(stray)).toBe('drop');
    expect(verdict(stray, { settings: { isTcpLiberal: true } })).toBe('unmatched');
    expect(verdict({ ...stray, destination: NODE })).toBe('unmatched');
  });

  it('pass a firewall that drops what nobody accepts', () => {
    const reply = { ...POD, destination: '198.51.100.9', state: 'ESTABLISHED' } as const;
    expect(verdict(reply, FIREWALL)).toBe('unmatched');
    expect(verdict({ ...reply, state: 'RELATED' }, FIREWALL)).toBe('unmatched');
    expect(verdict({ ...reply, state: 'NEW' }, FIREWALL)).toBe('drop');
  });
});

describe('a firewall that drops what nobody accepts', () => {
  it('lets pass what is masqueraded, as with kube-proxy', () => {
    const outside = { ...TO_SERVICE, source: '198.51.100.9', inInterface: 'eth0' };
    expect(verdict(outside, FIREWALL)).toBe('accept to backend');
    expect(verdict(TO_SERVICE, FIREWALL)).toBe('drop');
  });

  it('lets health checks pass', () => {
    expect(verdict({}, FIREWALL)).toBe('unmatched');
    expect(verdict({ destinationPort: 32_001 }, FIREWALL)).toBe('drop');
    expect(verdict({ protocol: 'UDP' }, FIREWALL)).toBe('drop');
  });
});

it('a ping to a ClusterIP is neither translated nor refused', () => {
  const ping = { ...TO_SERVICE, protocol: 'ICMP', destinationPort: 0 } as const;
  for (const source of ['10.1.1.9', '198.51.100.9'])
    expect(verdict({ ...ping, source })).toBe('unmatched');
  expect(verdict({ ...ping, source: NODE, inInterface: undefined })).toBe('unmatched');
});

describe('loopback addresses', () => {
  const packet = { destination: '127.0.0.1', destinationPort: 22 };
  it('are for the node itself', () => {
    expect(verdict(packet)).toBe('drop');
    expect(verdict({ ...packet, source: '127.0.0.1', inInterface: undefined })).toBe('unmatched');
  });

  it('of what has been answered or translated pass', () => {
    expect(verdict({ ...packet, state: 'ESTABLISHED' })).toBe('unmatched');
    expect(verdict({ ...packet, isDnat: true }).replace('accept to backend', 'passes')).toBe(
      'passes',
    );
  });
});

it('every chain that is jumped to exists, and every chain of a Service is jumped to', () => {
  for (const { tables } of render(plan, DEFAULTS)) {
    for (const { chains, jumps } of tables) {
      const rules = [...jumps.map(({ rule }) => rule), ...chains.flatMap((chain) => chain.rules)];
      const targets = rules.flatMap(({ target }) =>
        target?.kind === 'jump' && target.chain.startsWith('KUBE-') ? [target.chain] : [],
      );
      const names = chains.map(({ name }) => name);
      expect(names).toEqual(expect.arrayContaining(targets));
      expect(targets).toEqual(expect.arrayContaining(names.filter(isServiceChain)));
      expect(names).toHaveLength(new Set(names).size);
    }
  }
});
