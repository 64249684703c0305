// SPDX-License-Identifier: Apache-2.0
// Random operations on Services, on slices made by hand and on the Node: few names and few addresses, so
// that Services get in each other's way.
import { pick, type Random } from '../../support/model.ts';
import type { Api } from './api.ts';
import { NODES, servicesPath, slicesPath } from './objects.ts';

const NAMES = ['a', 'b', 'c'];

type Fields = Record<string, unknown>;

/** One operation, which the API may well refuse: then nothing has changed. */
export interface Step {
  readonly what: string;
  run(api: Api): Promise<unknown>;
}

const ports = (random: Random): Fields[] => {
  const all = [
    { name: 'http', port: 80, protocol: 'TCP' },
    { name: 'alt', port: 81, protocol: 'TCP' },
    { name: 'dns', port: 53, protocol: pick(random, ['UDP', 'TCP']) },
  ];
  return all.filter((_port, index) => index === 0 || random() < 0.4);
};

const policies = (random: Random): Fields => ({
  internalTrafficPolicy: pick(random, ['Cluster', 'Cluster', 'Local']),
  externalTrafficPolicy: pick(random, ['Cluster', 'Local']),
});

const affinity = (random: Random): Fields =>
  pick(random, [
    { sessionAffinity: 'None', sessionAffinityConfig: null },
    { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 90 } } },
  ]);

/** Few addresses, so that Services contend for them. */
const external = (random: Random): Fields => ({
  externalIPs: pick(random, [null, ['192.0.2.20'], ['192.0.2.20', '2001:db8::20'], ['192.0.2.21']]),
});

const ranges = (random: Random): Fields => ({
  loadBalancerSourceRanges: pick(random, [null, ['10.1.0.0/16'], ['192.0.2.0/24', '10.1.1.0/24']]),
});

function serviceSpec(random: Random): Fields {
  const type = pick(random, ['ClusterIP', 'ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName']);
  if (type === 'ExternalName') return { type, externalName: 'example.org' };
  const { internalTrafficPolicy, externalTrafficPolicy } = policies(random);
  return {
    ...{ type, ports: ports(random), internalTrafficPolicy },
    ...{ ipFamilyPolicy: pick(random, ['SingleStack', 'PreferDualStack', 'RequireDualStack']) },
    ...affinity(random),
    ...(type === 'ClusterIP' ? {} : { externalTrafficPolicy }),
    ...(random() < 0.4 ? external(random) : {}),
    ...(type === 'LoadBalancer' ? ranges(random) : {}),
    ...(random() < 0.1 ? { clusterIP: 'None', type: 'ClusterIP' } : {}),
  };
}

function createService(name: string, random: Random): Step {
  const labels = random() < 0.1 ? { 'service.kubernetes.io/service-proxy-name': 'other' } : {};
  const metadata = { name, labels };
  const service = { apiVersion: 'v1', kind: 'Service', metadata, spec: serviceSpec(random) };
  return {
    what: `create ${JSON.stringify(service)}`,
    run: (api) => api.create(servicesPath(), service),
  };
}

function patchService(name: string, random: Random): Step {
  const part = pick(random, [ports, policies, affinity, external, ranges, 'type', 'ingress']);
  const ingress = pick(random, [[], [{ ip: '192.0.2.20' }], [{ ip: '192.0.2.30' }]]);
  const type = pick(random, ['ClusterIP', 'NodePort', 'LoadBalancer']);
  const isStatus = part === 'ingress';
  const spec =
    part === 'type' ? { type } : part === ports ? { ports: ports(random) } : fieldsOf(part, random);
  const change = isStatus ? { status: { loadBalancer: { ingress } } } : { spec };
  const path = `${servicesPath()}/${name}${isStatus ? '/status' : ''}`;
  return {
    what: `patch ${path} ${JSON.stringify(change)}`,
    run: (api) => api.patch(path, change),
  };
}

const fieldsOf = (part: unknown, random: Random): unknown =>
  typeof part === 'function' ? part(random) : {};

function endpoint(family: string, last: number, random: Random): Fields {
  const address = family === 'IPv4' ? `10.1.1.${last}` : `fd00:10:1::${last}`;
  return {
    addresses: [address],
    conditions: pick(random, [
      {},
      { ready: true, serving: true, terminating: false },
      { ready: false, serving: true, terminating: true },
      { ready: false, serving: false, terminating: false },
    ]),
    nodeName: pick(random, ['n1', 'n1', 'n2']),
    zone: pick(random, ['a', 'b']),
    ...(random() < 0.3 ? { hints: { forZones: [{ name: pick(random, ['a', 'b']) }] } } : {}),
  };
}

/** Made by hand, as controllers other than Kubernetes' own do. */
function putSlice(name: string, random: Random): Step {
  const family = pick(random, ['IPv4', 'IPv4', 'IPv6']);
  const full = `${name}-${family.toLowerCase()}-${pick(random, ['1', '2'])}`;
  const used = [1, 2, 3, 4, 5].filter(() => random() < 0.5);
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: full,
      labels: {
        'kubernetes.io/service-name': name,
        'endpointslice.kubernetes.io/managed-by': 'histories.fairlead.io',
      },
    },
    addressType: family,
    ports: ports(random).map(({ name, protocol }) => ({
      ...{ name, protocol },
      port: pick(random, [8080, 8081]),
    })),
    endpoints: used.map((last) => endpoint(family, last, random)),
  };
  const path = `${slicesPath()}/${full}`;
  return {
    what: `put ${JSON.stringify(slice)}`,
    run: async (api) => {
      const isMade = await api.get(path).then(
        () => true,
        () => false,
      );
      return isMade ? api.replace(path, slice) : api.create(slicesPath(), slice);
    },
  };
}

const remove = (path: string): Step => ({
  what: `delete ${path}`,
  run: (api) => api.remove(path),
});

export function randomStep(random: Random): Step {
  const name = pick(random, NAMES);
  const chance = random();
  if (chance < 0.28) return createService(name, random);
  if (chance < 0.5) return patchService(name, random);
  if (chance < 0.58) return remove(`${servicesPath()}/${name}`);
  if (chance < 0.64) return remove(`${slicesPath()}/${name}-ipv4-1`);
  if (chance > 0.97) {
    const metadata = { labels: { 'topology.kubernetes.io/zone': pick(random, ['a', 'b']) } };
    const what = `patch node ${JSON.stringify(metadata)}`;
    return { what, run: (api) => api.patch(`${NODES}/n1`, { metadata }) };
  }
  return putSlice(name, random);
}
