// SPDX-License-Identifier: Apache-2.0
// Random operations on Services, on manually created slices and on the Node: few names and few addresses, so
// that Services conflict.
import fc from 'fast-check';
import { serviceObject, sliceMetadata, sliceObject } from '../../../support/objects.ts';
import { chance, some } from '../../../support/random.ts';
import type { Api } from '../objects/api.ts';
import { NODES, servicesPath, slicesPath } from '../objects/objects.ts';

type Fields = Readonly<Record<string, unknown>>;
type AnyFields = fc.Arbitrary<Fields>;

/** One operation; the API may reject it, and then nothing has changed. */
export interface Step {
  readonly what: string;
  run(api: Api): Promise<unknown>;
}

const name = some('a', 'b', 'c');
const zone = some('a', 'b');

/** These fields in this share of all cases, otherwise no fields. */
const inSome = (percent: number, fields: AnyFields): AnyFields =>
  chance(percent).chain((isThere) => (isThere ? fields : fc.constant<Fields>({})));

const merged = (...parts: readonly AnyFields[]): AnyFields =>
  fc.tuple(...parts).map((fields) => Object.assign({}, ...fields) as Fields);

const portList = fc
  .record({ hasAlt: chance(40), hasDns: chance(40), protocol: some('UDP', 'TCP') })
  .map(({ hasAlt, hasDns, protocol }) => [
    { name: 'http', port: 80, protocol: 'TCP' },
    ...(hasAlt ? [{ name: 'alt', port: 81, protocol: 'TCP' }] : []),
    ...(hasDns ? [{ name: 'dns', port: 53, protocol }] : []),
  ]);

const ports = portList.map((list): Fields => ({ ports: list }));
const internal = fc.record({ internalTrafficPolicy: some('Cluster', 'Cluster', 'Local') });
const outer = fc.record({ externalTrafficPolicy: some('Cluster', 'Local') });
const affinity = some<Fields>(
  { sessionAffinity: 'None', sessionAffinityConfig: null },
  { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 90 } } },
);
/** Few addresses, so that Services conflict over them. */
const external = fc.record({
  externalIPs: some(null, ['192.0.2.20'], ['192.0.2.20', '2001:db8::20'], ['192.0.2.21']),
});
const ranges = fc.record({
  loadBalancerSourceRanges: some(null, ['10.1.0.0/16'], ['192.0.2.0/24', '10.1.1.0/24']),
});
const familyPolicy = fc.record({
  ipFamilyPolicy: some('SingleStack', 'PreferDualStack', 'RequireDualStack'),
});

const specOf = (type: string): AnyFields =>
  type === 'ExternalName'
    ? fc.constant({ type, externalName: 'example.org' })
    : merged(
        ...[fc.constant({ type }), ports, internal, familyPolicy, affinity],
        ...(type === 'ClusterIP' ? [] : [outer]),
        inSome(40, external),
        ...(type === 'LoadBalancer' ? [ranges] : []),
        inSome(10, fc.constant({ clusterIP: 'None', type: 'ClusterIP' })),
      );

const serviceSpec = some(
  ...['ClusterIP', 'ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'],
).chain(specOf);
const ofAnotherProxy = inSome(
  10,
  fc.constant({ 'service.kubernetes.io/service-proxy-name': 'other' }),
);

const createService = fc
  .record({ name, labels: ofAnotherProxy, spec: serviceSpec })
  .map(({ name, labels, spec }): Step => {
    const service = serviceObject(name, spec, { metadata: { name, labels } });
    return {
      what: `create ${JSON.stringify(service)}`,
      run: (api) => api.create(servicesPath(), service),
    };
  });

const ingress = some<readonly object[]>([], [{ ip: '192.0.2.20' }], [{ ip: '192.0.2.30' }]);
const type = fc.record({ type: some('ClusterIP', 'NodePort', 'LoadBalancer') });
const patch = fc.oneof(
  ...[ports, merged(internal, outer), affinity, external, ranges, type].map((part) =>
    part.map((spec) => ({ path: '', change: { spec } as Fields })),
  ),
  ingress.map((ingress) => ({
    path: '/status',
    change: { status: { loadBalancer: { ingress } } } as Fields,
  })),
);

const patchService = fc.record({ name, patch }).map(({ name, patch: { path, change } }): Step => {
  const whole = `${servicesPath()}/${name}${path}`;
  return {
    what: `patch ${whole} ${JSON.stringify(change)}`,
    run: (api) => api.patch(whole, change),
  };
});

const endpoint = merged(
  fc.record({
    conditions: some<Fields>(
      {},
      { ready: true, serving: true, terminating: false },
      { ready: false, serving: true, terminating: true },
      { ready: false, serving: false, terminating: false },
    ),
    nodeName: some('n1', 'n1', 'n2'),
    zone,
  }),
  inSome(
    30,
    zone.map((hint) => ({ hints: { forZones: [{ name: hint }] } })),
  ),
);

const sliceParts = fc.record({
  owner: name,
  family: some('IPv4', 'IPv4', 'IPv6'),
  number: some('1', '2'),
  ports: portList,
  targetPorts: fc.tuple(some(8080, 8081), some(8080, 8081), some(8080, 8081)),
  /** The last parts of the addresses: some of 1 to 5. */
  used: fc.subarray([1, 2, 3, 4, 5]),
  endpoints: fc.tuple(endpoint, endpoint, endpoint, endpoint, endpoint),
});

/** Created by the test, as by controllers other than Kubernetes' own. */
const putSlice = sliceParts.map(({ owner, family, number, used, ...parts }): Step => {
  const full = `${owner}-${family.toLowerCase()}-${number}`;
  const address = (last: number): string =>
    family === 'IPv4' ? `10.1.1.${last}` : `fd00:10:1::${last}`;
  const endpoints = used.map((last) => ({
    addresses: [address(last)],
    ...parts.endpoints[last - 1],
  }));
  const labels = { 'endpointslice.kubernetes.io/managed-by': 'histories.fairlead.io' };
  const slice = sliceObject(owner, endpoints, {
    metadata: sliceMetadata(owner, full, labels),
    addressType: family,
    ports: parts.ports.map(({ name, protocol }, index) => ({
      ...{ name, protocol },
      port: parts.targetPorts[index],
    })),
  });
  return { what: `put ${JSON.stringify(slice)}`, run: (api) => put(api, full, slice) };
});

async function put(api: Api, name: string, slice: object): Promise<unknown> {
  const path = `${slicesPath()}/${name}`;
  const isMade = await api.get(path).then(
    () => true,
    () => false,
  );
  return isMade ? api.replace(path, slice) : api.create(slicesPath(), slice);
}

const remove = (path: string): Step => ({
  what: `delete ${path}`,
  run: (api) => api.remove(path),
});

const moveNode = zone.map((zone): Step => {
  const metadata = { labels: { 'topology.kubernetes.io/zone': zone } };
  const what = `patch node ${JSON.stringify(metadata)}`;
  return { what, run: (api) => api.patch(`${NODES}/n1`, { metadata }) };
});

export const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 28, arbitrary: createService },
  { weight: 22, arbitrary: patchService },
  { weight: 8, arbitrary: name.map((name) => remove(`${servicesPath()}/${name}`)) },
  { weight: 6, arbitrary: name.map((name) => remove(`${slicesPath()}/${name}-ipv4-1`)) },
  { weight: 33, arbitrary: putSlice },
  { weight: 3, arbitrary: moveNode },
);
