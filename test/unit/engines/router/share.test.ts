// SPDX-License-Identifier: Apache-2.0
// What each dataplane is given of a plan.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BPF, type Capabilities, servedBy } from '../../../../src/engines/capabilities.ts';
import { createSharing } from '../../../../src/engines/router/share.ts';
import { persistentMap } from '../../../../src/lib/persistent/map.ts';
import type { Protocol } from '../../../../src/model/types.ts';
import { ALGORITHM_NAMES } from '../../../../src/plan/decide/balancing.ts';
import { CLIENT_POSITIONS } from '../../../../src/plan/decide/traffic-rules.ts';
import type { Frontend, Plan, ServicePortPlan } from '../../../../src/plan/types.ts';
import { clusterIp, localNodePort, planOf, servicePort } from '../bpf/plans.ts';
import { LAST_RESORT, linesOf, PACKETS, planLines } from '../support.ts';

const balancer = (address: string): Frontend => ({
  ...clusterIp(address),
  ...{ kind: 'LoadBalancer', isFiltered: true },
});

const port = (name: string, protocol: Protocol, ...frontends: Frontend[]): ServicePortPlan => ({
  ...servicePort(name, frontends, []),
  ...{ key: `default/${name}:${protocol}/${protocol}/IPv4`, portName: protocol, protocol },
});

const WEB = port('web', 'TCP', clusterIp('10.96.0.1'), balancer('203.0.113.1'));
const OPEN = port('open', 'UDP', clusterIp('10.96.0.2'), localNodePort(30053));
const TELCO = port('telco', 'SCTP', clusterIp('10.96.0.3'));
const PLAN = planOf(WEB, OPEN, TELCO);

const shares = (plan: Plan, dataplanes: readonly Capabilities[]) =>
  dataplanes.map((_, index) => planLines(createSharing(dataplanes, index).planOf(plan)));

const BY_BPF = [
  'web 10.96.0.1:80/TCP',
  'web 10.96.0.1:*',
  'open 10.96.0.2:80/UDP',
  'open *:30053/UDP',
  'open 10.96.0.2:*',
  'telco 10.96.0.3:*',
];
const REST = ['web 203.0.113.1:80/TCP', 'telco 10.96.0.3:80/SCTP'];

describe('who gets what', () => {
  const rows: readonly [string, readonly Capabilities[], readonly (readonly string[])[]][] = [
    ['bpf alone', [BPF], [BY_BPF]],
    ['bpf, then packets', [BPF, PACKETS], [BY_BPF, BY_BPF]],
    [
      'bpf, then one that does all',
      [BPF, LAST_RESORT],
      [BY_BPF, [BY_BPF[0], REST[0], ...BY_BPF.slice(1, 5), REST[1], BY_BPF[5]]],
    ],
    ['bpf, packets, the rest', [BPF, PACKETS, LAST_RESORT], [BY_BPF, BY_BPF, REST]],
    ['one that does all comes first', [LAST_RESORT, BPF], [planLines(PLAN), []]],
    ['IPv6 alone does nothing here', [{ ...BPF, families: ['IPv6'] }], [[]]],
  ] as never;
  for (const [what, dataplanes, expected] of rows) {
    test(what, () => {
      const sorted = (lists: readonly (readonly string[])[]) => lists.map((l) => l.toSorted());
      expect(sorted(shares(PLAN, dataplanes))).toEqual(sorted(expected));
    });
  }
});

test('a whole Service is the identical object, a cut one is identical from plan to plan', () => {
  const sharing = createSharing([BPF], 0);
  const { services: share } = sharing.planOf(PLAN);
  expect(share.get('default/open')).toBe(PLAN.services.get('default/open'));
  const cut = share.get('default/web');
  expect(cut).not.toBe(PLAN.services.get('default/web'));
  const services = persistentMap(PLAN.services).withChanges([['default/open', undefined]]);
  const { services: later } = sharing.planOf({ ...PLAN, services });
  expect([later.get('default/web') === cut, later.has('default/open')]).toEqual([true, false]);
  expect(share.has('default/open')).toBe(true);
});

test('a Service without a share is not there', () => {
  const { services: share } = createSharing([LAST_RESORT, BPF], 0).planOf(PLAN);
  const { services: none } = createSharing([LAST_RESORT, BPF], 1).planOf(PLAN);
  expect([share.size, [...share.keys()], none.size, none.has('default/web')]).toEqual([
    ...[3, ['default/web', 'default/open', 'default/telco']],
    ...[0, false],
  ]);
});

const servedArbitrary = fc.option(
  fc.record({
    protocols: fc.subarray(['TCP', 'UDP', 'SCTP'] as const),
    hasSourceRanges: fc.boolean(),
    hasMasquerade: fc.boolean(),
  }),
  { nil: undefined },
);
const capabilitiesArbitrary = fc.record({
  dataplane: fc.constant(''),
  families: fc.subarray(['IPv4', 'IPv6'] as const),
  serves: fc.record({ pod: servedArbitrary, host: servedArbitrary, outside: servedArbitrary }),
  changesSctpPorts: fc.boolean(),
  keepsLocalClients: fc.boolean(),
  countsConnections: fc.boolean(),
  knowsNode: fc.boolean(),
  canBypass: fc.boolean(),
  affinityClients: fc.option(fc.nat(), { nil: undefined }),
  algorithms: fc.subarray(ALGORITHM_NAMES),
  directReturn: fc.boolean(),
});
const portsArbitrary = fc.array(
  fc.record({
    protocol: fc.constantFrom('TCP', 'UDP', 'SCTP' as const),
    family: fc.constantFrom('IPv4', 'IPv6' as const),
    name: fc.constantFrom('a', 'b', 'c'),
    kinds: fc.subarray(['ClusterIP', 'LoadBalancer', 'NodePort'] as const, { minLength: 1 }),
  }),
  { maxLength: 8 },
);
const frontendsOf = (kinds: readonly string[], at: number): readonly Frontend[] =>
  kinds.map((kind) => {
    if (kind === 'NodePort') return localNodePort(30_000 + at);
    return kind === 'ClusterIP'
      ? clusterIp(`10.96.0.${at}`, at + 1)
      : { ...balancer(`203.0.113.${at}`), port: at + 1 };
  });

test('every frontend is served by the first that can, for each origin, and nobody has another one', () => {
  fc.assert(
    fc.property(
      fc.array(capabilitiesArbitrary, { minLength: 1, maxLength: 4 }),
      portsArbitrary,
      (unnamed, specs) => {
        const dataplanes = unnamed.map((row, at) => ({ ...row, dataplane: `d${at}` }));
        const plan = planOf(
          ...specs.map(({ name, kinds, ...traits }, at) => ({
            ...port(name, 'TCP', ...frontendsOf(kinds, at)),
            ...{ ...traits, key: `default/${name}:${at}/${traits.protocol}/${traits.family}` },
          })),
        );
        const held = shares(plan, dataplanes);
        for (const service of plan.services.values()) {
          for (const planned of service.ports) {
            for (const frontend of planned.frontends) {
              const line = linesOf({
                ...service,
                ports: [{ ...planned, frontends: [frontend], refusesOtherPortsOf: undefined }],
              }).join();
              const serving = new Set(
                CLIENT_POSITIONS.map(
                  (origin) => servedBy(dataplanes, planned, frontend, origin).dataplane,
                ),
              );
              const has = dataplanes.filter((_, at) => held[at]?.includes(line));
              expect(has.map(({ dataplane }) => dataplane)).toEqual(
                dataplanes.map(({ dataplane }) => dataplane).filter((name) => serving.has(name)),
              );
            }
          }
        }
      },
    ),
  );
});
