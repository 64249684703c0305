// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import type { Plan, PlanSettings } from '../../../../src/plan/types.ts';
import { buildAll } from '../../../support/plan/build-all.ts';
import { node, SETTINGS } from '../support.ts';

const NODE = node('n1', '', {
  spec: { podCIDRs: ['10.1.1.0/24', '10.1.9.0/24', '2001:db8:1::/64'] },
  status: {
    addresses: [
      { type: 'ExternalIP', address: '203.0.113.1' },
      { type: 'InternalIP', address: '192.0.2.11' },
      { type: 'InternalIP', address: '2001:db8::11' },
    ],
  },
});

const planWith = (settings: Partial<PlanSettings>, objects = [NODE]): Plan =>
  buildAll(objects, { ...SETTINGS, ...settings });

describe('node addresses', () => {
  it('internal before external, one of each family', () => {
    const { node: facts } = planWith({});
    expect(facts.addresses).toEqual({ IPv4: '192.0.2.11', IPv6: '2001:db8::11' });
    expect(facts.localAddresses).toEqual(['192.0.2.11', '2001:db8::11', '203.0.113.1']);
  });

  it('a real bind address takes the place of its family', () => {
    const { node: facts } = planWith({ bindAddress: '172.20.0.1' });
    expect(facts.addresses).toEqual({ IPv4: '172.20.0.1', IPv6: '2001:db8::11' });
    expect(facts.localAddresses).toContain('172.20.0.1');
  });

  it.each(['0.0.0.0', '::', 'x'])('bind address %s means none', (bindAddress) => {
    expect(planWith({ bindAddress }).node.addresses.IPv4).toBe('192.0.2.11');
  });

  it('without a Node object nothing is known', () => {
    const { node: facts } = planWith({}, []);
    expect(facts).toMatchObject({ name: 'n1', zone: '', localAddresses: [], podCidrs: [] });
  });

  it('other Nodes are neighbours', () => {
    const { node: facts } = planWith({}, [NODE, node('n2', '192.0.2.12')]);
    expect([...facts.others]).toEqual([['192.0.2.12', 'n2']]);
    expect(facts.localAddresses).not.toContain('192.0.2.12');
  });
});

describe('nodePortAddresses', () => {
  it.each<[readonly string[], Plan['nodePortAddresses']]>([
    [[], { IPv4: 'all', IPv6: 'all' }],
    [['all', 'primary'], { IPv4: 'all', IPv6: 'all' }],
    [['primary'], { IPv4: ['192.0.2.11/32'], IPv6: ['2001:db8::11/128'] }],
    [['localhost'], { IPv4: ['127.0.0.0/8'], IPv6: [] }],
    [['10.0.0.7/8'], { IPv4: ['10.0.0.0/8'], IPv6: 'all' }],
    [['2001:db8::/32'], { IPv4: 'all', IPv6: ['2001:db8::/32'] }],
    [['10.0.0.0/8', '0.0.0.0/0'], { IPv4: 'all', IPv6: 'all' }],
    [
      ['primary', ' 10.0.0.0/8', 'localhost'],
      { IPv4: ['10.0.0.0/8', '127.0.0.0/8', '192.0.2.11/32'], IPv6: ['2001:db8::11/128'] },
    ],
  ])('%j', (nodePortAddresses, expected) => {
    expect(planWith({ nodePortAddresses }).nodePortAddresses).toEqual(expected);
  });

  it('primary of a node without addresses is none, not all', () => {
    const { nodePortAddresses } = planWith({ nodePortAddresses: ['primary'] }, []);
    expect(nodePortAddresses).toEqual({ IPv4: [], IPv6: [] });
  });

  it('primary is never loopback', () => {
    const { nodePortAddresses } = planWith({
      nodePortAddresses: ['primary'],
      bindAddress: '127.0.0.1',
    });
    expect(nodePortAddresses.IPv4).toEqual([]);
  });
});

describe('local detectors', () => {
  const cidr = (text: string) => ({ kind: 'cidr', cidr: text });

  it.each<[Partial<PlanSettings>, unknown, unknown]>([
    [{ clusterCidrs: [] }, undefined, undefined],
    [{ clusterCidrs: ['10.1.0.1/16', '10.2.0.0/16'] }, cidr('10.1.0.0/16'), undefined],
    [{ clusterCidrs: ['fd00::/48', '10.1.0.0/16'] }, cidr('10.1.0.0/16'), cidr('fd00::/48')],
    [{ detectLocalMode: 'NodeCIDR' }, cidr('10.1.1.0/24'), cidr('2001:db8:1::/64')],
    [{ detectLocalMode: 'BridgeInterface' }, undefined, undefined],
    [{ detectLocalMode: 'InterfaceNamePrefix', podInterfaceNamePrefix: '' }, undefined, undefined],
  ])('%j', (settings, IPv4, IPv6) => {
    expect(planWith(settings).detector).toEqual({ IPv4, IPv6 });
  });

  it('interfaces serve both families', () => {
    const bridge = { kind: 'interface', name: 'cni0' };
    const { detector } = planWith({
      detectLocalMode: 'BridgeInterface',
      podBridgeInterface: 'cni0',
    });
    expect(detector).toEqual({ IPv4: bridge, IPv6: bridge });
  });
});
