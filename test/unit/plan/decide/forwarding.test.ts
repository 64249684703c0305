// SPDX-License-Identifier: Apache-2.0
// Which clients of which frontends are served by direct return, and on which nodes the backends then are.
import { describe, expect, it, test } from 'vitest';
import type { Forwarding } from '../../../../src/model/types.ts';
import { directPath } from '../../../../src/plan/direct-return/peers.ts';
import { isRealServer } from '../../../../src/plan/direct-return/real-servers.ts';
import type { Peer, ServicePortPlan } from '../../../../src/plan/types.ts';
import { buildAll } from '../../../support/plan/build-all.ts';
import { createPlanner } from '../../../support/plan/planner.ts';
import { node, ready, SETTINGS, service, slice } from '../support.ts';

interface Given {
  readonly forwarding?: string;
  readonly byDefault?: Exclude<Forwarding, 'ipip'>;
  readonly protocol?: string;
  readonly spec?: object;
}

function portOf({ forwarding, byDefault, protocol = 'TCP', spec = {} }: Given): ServicePortPlan {
  const annotations = { ...(forwarding !== undefined && { 'fairlead.io/forwarding': forwarding }) };
  const ports = [{ name: 'main', protocol, port: 80, nodePort: 30_080 }];
  const plan = buildAll(
    [
      service('web', 10, { type: 'NodePort', ports, ...spec }, { metadata: { annotations } }),
      slice('web', [ready('10.1.1.5', 'n1'), ready('10.1.2.5', 'n2')], {
        ports: [{ name: 'main', protocol, port: 8080 }],
      }),
    ],
    { ...SETTINGS, ...(byDefault && { forwarding: byDefault }) },
  );
  const [port] = plan.services.get('default/web')?.ports ?? [];
  if (port === undefined) throw new Error('no port');
  return port;
}

/** `NodePort outside`: frontends and the client positions that are served by direct return. */
const direct = ({ frontends }: ServicePortPlan): readonly string[] =>
  frontends.flatMap(({ kind, rules }) =>
    (['pod', 'host', 'outside'] as const)
      .filter((position) => rules[position].directReturn)
      .map((position) => `${kind} ${position}`),
  );

const nodesOf = ({ cluster }: ServicePortPlan) => cluster.map((backend) => backend.node);

describe('direct return', () => {
  it.each<[string, Given]>([
    ['TCP by dsr', { forwarding: 'dsr' }],
    ['TCP by hybrid', { forwarding: 'hybrid' }],
    ['UDP by dsr', { forwarding: 'dsr', protocol: 'UDP' }],
    ['TCP by the default of the node', { byDefault: 'dsr' }],
    ['TCP, by the default, whose annotation means nothing', { byDefault: 'dsr', forwarding: 'no' }],
  ])('%s: of clients from outside at external frontends', (_what, given) => {
    const port = portOf(given);
    expect(direct(port)).toEqual(['NodePort outside']);
    expect(port.frontends.at(-1)?.rules.outside.masquerade).toBe(true);
    expect(nodesOf(port)).toEqual([undefined, 'n2']);
  });

  it.each<[string, Given]>([
    ['UDP by hybrid', { forwarding: 'hybrid', protocol: 'UDP' }],
    ['SCTP', { forwarding: 'dsr', protocol: 'SCTP' }],
    ['snat', { forwarding: 'snat', byDefault: 'dsr' }],
    ['nobody asks', {}],
    ['policy Local', { forwarding: 'dsr', spec: { externalTrafficPolicy: 'Local' } }],
  ])('%s: of none, and backends do not say their nodes', (_what, given) => {
    const port = portOf(given);
    expect(direct(port)).toEqual([]);
    expect(nodesOf(port)).toEqual([undefined, undefined]);
  });

  it('what is asked for is kept for views, unless it is the default of defaults', () => {
    expect(portOf({ forwarding: 'hybrid', protocol: 'UDP' }).forwarding).toBe('hybrid');
    expect(portOf({ forwarding: 'snat', byDefault: 'dsr' })).not.toHaveProperty('forwarding');
  });
});

describe('IPIP', () => {
  const LOCAL = ready('10.1.1.5', 'n1');
  const POD = ready('10.1.2.5', 'n2');
  const SERVER = { addresses: ['192.0.2.80'], conditions: { ready: true } };
  interface Asked {
    readonly endpoints?: readonly object[];
    readonly endpointPort?: number;
    readonly protocol?: string;
    readonly spec?: object;
  }
  const built = ({ endpoints = [SERVER], endpointPort = 80, protocol = 'TCP', spec }: Asked) => {
    const annotations = { 'fairlead.io/forwarding': 'ipip' };
    const ports = [{ name: 'main', protocol, port: 80, nodePort: 30_080 }];
    const balancer = {
      ...{ type: 'LoadBalancer', ports, externalIPs: ['203.0.113.11'], ...spec },
    };
    const status = { loadBalancer: { ingress: [{ ip: '203.0.113.10' }] } };
    const plan = buildAll(
      [
        service('web', 10, balancer, { metadata: { annotations }, status }),
        slice('web', endpoints, { ports: [{ name: 'main', protocol, port: endpointPort }] }),
      ],
      SETTINGS,
    );
    const port = plan.services.get('default/web')?.ports[0];
    if (port === undefined) throw new Error('no port');
    return { plan, port };
  };
  const inIpip = ({ frontends }: ServicePortPlan): readonly string[] =>
    frontends.flatMap(({ kind, rules }) => (rules.outside.ipip ? [kind] : []));

  it.each(['TCP', 'UDP'])('%s: of clients from outside, except at NodePorts', (protocol) => {
    const { plan, port } = built({ protocol });
    expect(inIpip(port).toSorted()).toEqual(['ExternalIP', 'LoadBalancer']);
    expect(direct(port).toSorted()).toEqual(['ExternalIP outside', 'LoadBalancer outside']);
    expect(plan.rejections).toEqual([]);
    expect(plan.wantsDirectReturn).toBeUndefined();
  });

  it('endpoints of nodes say so: they are no real servers', () => {
    const { plan, port } = built({ endpoints: [LOCAL, POD, SERVER] });
    expect(nodesOf(port)).toEqual([undefined, 'n2', undefined]);
    expect([...port.cluster].map(isRealServer)).toEqual([false, false, true]);
    expect(plan.rejections).toEqual([]);
  });

  const REASON =
    'ipip leaves ports as they are: port main (80/TCP) has the endpoint 192.0.2.80:8080; it is served by snat';
  it.each<[string, Asked, string | undefined]>([
    ['SCTP', { protocol: 'SCTP' }, undefined],
    ['a real server with another port', { endpointPort: 8080 }, REASON],
    [
      'policy Local',
      { spec: { externalTrafficPolicy: 'Local' } },
      'ipip has no effect with externalTrafficPolicy Local: use Cluster',
    ],
  ])('%s: of none', (_what, asked, reason) => {
    const { plan, port } = built(asked);
    expect(inIpip(port)).toEqual([]);
    expect(direct(port)).toEqual([]);
    expect(plan.rejections.map((one) => [one.object.name, one.field, one.reason])).toEqual(
      reason === undefined
        ? []
        : [['web', 'metadata.annotations["fairlead.io/forwarding"]', reason]],
    );
  });

  it('pods may have another port: they are served as without it', () => {
    const { plan, port } = built({ endpoints: [LOCAL, POD], endpointPort: 8080 });
    expect(inIpip(port)).toHaveLength(2);
    expect(plan.rejections).toEqual([]);
  });
});

describe('the way to a backend', () => {
  const peer = (directReturnPort: number | undefined, ...addresses: readonly string[]): Peer => ({
    addresses,
    directReturnPort,
  });
  const peers = new Map([
    ['n2', peer(6081, '192.0.2.12', '2001:db8::12')],
    ['n3', peer(undefined, '192.0.2.13')],
    ['n4', peer(7081)],
    ['n5', peer(7081, '2001:db8::15')],
  ]);

  it.each([
    ['n2', 'IPv4', { node: 'n2', address: '192.0.2.12', port: 6081 }],
    ['n2', 'IPv6', { node: 'n2', address: '2001:db8::12', port: 6081 }],
    ['n5', 'IPv4', { node: 'n5', address: '2001:db8::15', port: 7081 }],
    ['n3', 'IPv4', { reason: 'Node n3 does not take direct return' }],
    ['n4', 'IPv4', { reason: 'Node n4 has no address' }],
    ['n9', 'IPv4', { reason: 'Node n9 is not known' }],
    [undefined, 'IPv4', { reason: 'its EndpointSlice does not name its node' }],
  ] as const)('on node %s, %s', (name, family, expected) => {
    expect(directPath({ peers }, { ...(name && { node: name }) }, family)).toEqual(expected);
  });

  it('without any Node nothing is known', () => {
    expect(directPath({}, { node: 'n2' }, 'IPv4')).toEqual({ reason: 'Node n2 is not known' });
  });
});

test('another Node that comes, changes or goes touches no Service', () => {
  const planner = createPlanner(SETTINGS);
  planner.apply([service('web', 10), node('n1', '192.0.2.11')]);
  const accepted = planner.current().nodePortAddresses;
  const annotations = { 'fairlead.io/direct-return': 'geneve/1' };
  const peer = { addresses: ['192.0.2.12'], directReturnPort: 6081 };
  for (const [change, expected] of [
    [node('n2', '192.0.2.12'), { ...peer, directReturnPort: undefined }],
    [node('n2', '192.0.2.12', { metadata: { annotations } }), peer],
  ] as const) {
    const delta = planner.apply([change]);
    expect(delta).toMatchObject({ changed: [] });
    expect(delta.plan.node.peers?.get('n2')).toEqual(expected);
    expect(delta.plan.nodePortAddresses).toBe(accepted);
  }
  const own = planner.apply([node('n1', '192.0.2.11', { metadata: { annotations } })]);
  expect(own).toMatchObject({ changed: [], plan: { node: { isPeer: true } } });
  expect(own.plan.node.peers?.get('n2')).toEqual(peer);
  const before = planner.current().node;
  const { plan } = planner.apply([node('n2', '192.0.2.12', { metadata: { annotations } })]);
  expect(plan.node.peers).toBe(before.peers);
  const without = planner.apply([node('n1', '192.0.2.11')]).plan.node;
  expect(without.peers).toBe(before.peers);
  expect(without).not.toHaveProperty('isPeer');
});
