// SPDX-License-Identifier: Apache-2.0
// Objects that today's API server would reject but that old stores may still hold: written directly to etcd and
// served by the API server like any other. Each is reported by object, field and reason; its valid parts and all
// other objects are still served.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { problemText } from '../../../../src/model/problem.ts';
import type { ServiceRow } from '../../../../src/observe/service-rows.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import type { Target } from '../../../../tools/lab/client/protocol.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { clusterIp, serviceObject, sliceMetadata, sliceObject } from '../../../support/objects.ts';
import { untilHolds } from '../../../support/until.ts';
import { type ClusterAgent, startClusterAgent } from '../agent/agent.ts';
import { type ServedNode, startServedNode } from '../agent/served-node.ts';
import { prepareCluster } from '../programs/binaries.ts';

const SERVICE = '/registry/services/specs/default/old';
const SLICE = '/registry/endpointslices/default/old';
const ADDRESS = '10.96.5.5';

type Fields = Record<string, unknown>;

const metadata = (more: Fields = {}): Fields => ({
  ...{ name: 'old', namespace: 'default', uid: '11111111-1111-1111-1111-111111111111' },
  ...{ creationTimestamp: '2017-03-28T12:00:00Z', ...more },
});
const storedService = (spec: Fields, status: Fields = {}, meta: Fields = {}): Fields =>
  serviceObject(
    'old',
    {
      ...{ type: 'ClusterIP', ...clusterIp(ADDRESS), ipFamilyPolicy: 'SingleStack' },
      ...{ sessionAffinity: 'None', ports: [port('http', 80)], ...spec },
    },
    { metadata: metadata(meta), status: { loadBalancer: {}, ...status } },
  );
const port = (name: string, number: number, more: Fields = {}): Fields => ({
  ...{ name, port: number, protocol: 'TCP', targetPort: 8080, ...more },
});
const storedSlice = (endpoints: readonly Fields[], more: Fields = {}): Fields =>
  sliceObject('old', endpoints, { metadata: metadata(sliceMetadata('old')), ...more });
const at = (address: string): Fields => ({ addresses: [address], conditions: { ready: true } });

interface BadObject {
  readonly name: string;
  readonly object: Fields;
  /** `field: reason`. */
  readonly problems: readonly string[];
  /** Ports of the Service that are served nevertheless. */
  readonly served: readonly number[];
}

const SERVICES: readonly BadObject[] = [
  {
    name: 'a port 0 beside a valid one',
    object: storedService({ ports: [port('zero', 0), port('http', 80)] }),
    problems: ['spec.ports[0].port: must be a port number from 1 to 65535, not 0'],
    served: [80],
  },
  {
    name: 'a port 70000 beside a valid one',
    object: storedService({ ports: [port('http', 80), port('big', 70000)] }),
    problems: ['spec.ports[1].port: must be a port number from 1 to 65535, not 70000'],
    served: [80],
  },
  {
    name: 'two ports with the same name',
    object: storedService({ ports: [port('http', 80), port('http', 81)] }),
    problems: ['spec.ports[1].name: "http" for TCP is already spec.ports[0]'],
    served: [80],
  },
  {
    name: 'a duplicate port',
    object: storedService({ ports: [port('http', 80), port('again', 80)] }),
    problems: ['spec.ports[1].port: 80/TCP is already spec.ports[0]'],
    served: [80],
  },
  {
    name: 'an unknown protocol',
    object: storedService({ ports: [port('http', 80), port('icmp', 81, { protocol: 'ICMP' })] }),
    problems: ['spec.ports[1].protocol: must be TCP, UDP or SCTP, not "ICMP"'],
    served: [80],
  },
  {
    name: 'a ClusterIP with leading zeros',
    object: storedService({ clusterIP: '010.096.005.005', clusterIPs: ['010.096.005.005'] }),
    problems: [],
    served: [80],
  },
  {
    name: 'an invalid ClusterIP',
    object: storedService({ clusterIP: '10.96.5.555', clusterIPs: ['10.96.5.555'] }),
    problems: ['spec.clusterIP: must be an IP address, not "10.96.5.555"'],
    served: [],
  },
  {
    name: 'external addresses that cannot be reached over the network',
    object: storedService({ externalIPs: ['127.0.0.1', '192.0.2.9', 'fe80::1', 'here'] }),
    problems: [
      'spec.externalIPs[0]: 127.0.0.1 is a loopback address',
      'spec.externalIPs[2]: fe80::1 is a link-local address',
      'spec.externalIPs[3]: must be an IP address, not "here"',
    ],
    served: [80, 80],
  },
  {
    name: 'an affinity and a policy that this version does not know',
    object: storedService({ sessionAffinity: 'Cookie', internalTrafficPolicy: 'Nearest' }),
    problems: [
      'spec.internalTrafficPolicy: must be Cluster or Local, not "Nearest"',
      'spec.sessionAffinity: must be None or ClientIP, not "Cookie"',
    ],
    served: [80],
  },
  {
    name: 'an affinity timeout beyond the maximum',
    object: storedService({
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 9_999_999 } },
    }),
    problems: [
      'spec.sessionAffinityConfig.clientIP.timeoutSeconds: must be 1 to 86400 seconds, not 9999999; 10800 is used',
    ],
    served: [80],
  },
  {
    name: 'an invalid load balancer address',
    object: storedService(
      { type: 'LoadBalancer' },
      { loadBalancer: { ingress: [{ ip: '127.0.0.1', ipMode: 'VIP' }] } },
    ),
    problems: [
      'status.loadBalancer.ingress[0].ip: must be an address of a load balancer, not "127.0.0.1"',
    ],
    served: [80],
  },
  {
    name: 'an annotation of 1 MB',
    object: storedService({}, {}, { annotations: { big: 'x'.repeat(1024 * 1024) } }),
    problems: [],
    served: [80],
  },
];

const SLICES: readonly (Omit<BadObject, 'served'> & { readonly backends: readonly string[] })[] = [
  {
    name: 'invalid and unusable addresses beside a valid one',
    object: storedSlice([
      ...[at('127.0.0.1'), at('10.1.1.77'), at('10.1.1.300')],
      ...[at('169.254.1.1'), at('fd00::1')],
    ]),
    problems: [
      'endpoints[0].addresses[0]: 127.0.0.1 is a loopback address',
      'endpoints[2].addresses[0]: must be an IP address, not "10.1.1.300"',
      'endpoints[3].addresses[0]: 169.254.1.1 is a link-local address',
      'endpoints[4].addresses[0]: fd00::1 is not of IPv4',
    ],
    backends: ['10.1.1.77:8080'],
  },
  {
    name: 'an address with leading zeros',
    object: storedSlice([at('010.001.001.077')]),
    problems: [],
    backends: ['10.1.1.77:8080'],
  },
  {
    name: 'a port 0 and an unknown protocol beside a valid port',
    object: storedSlice([at('10.1.1.77')], {
      ports: [
        { name: 'zero', port: 0, protocol: 'TCP' },
        { name: 'http', port: 8080, protocol: 'TCP' },
        { name: 'icmp', port: 1, protocol: 'ICMP' },
      ],
    }),
    problems: [
      'ports[0].port: must be a port number from 1 to 65535, not 0',
      'ports[2].protocol: must be TCP, UDP or SCTP, not "ICMP"',
    ],
    backends: ['10.1.1.77:8080'],
  },
  {
    name: 'an unknown address type',
    object: storedSlice([at('10.1.1.77')], { addressType: 'IP' }),
    problems: ['addressType: must be IPv4, IPv6 or FQDN, not "IP"'],
    backends: [],
  },
  {
    name: '1001 endpoints',
    object: storedSlice(Array.from({ length: 1001 }, (_, n) => at(`10.2.${n >> 8}.${n & 255}`))),
    problems: ['endpoints[0].addresses[0]: 10.2.0.0'].slice(1),
    backends: Array.from({ length: 1001 }, (_, n) => `10.2.${n >> 8}.${n & 255}:8080`),
  },
  {
    name: 'only invalid addresses: the first ones are reported',
    object: storedSlice(Array.from({ length: 400 }, () => at('0.0.0.0'))),
    problems: Array.from(
      { length: 51 },
      (_, n) =>
        `endpoints[${n}].addresses[0]: 0.0.0.0 is the unspecified address${n === 50 ? '; further problems are not listed' : ''}`,
    ),
    backends: [],
  },
];

const readiness = await prepareCluster();

describe.skipIf(!readiness.isReady)('objects of an old store', () => {
  let served: ServedNode;
  let agent: ClusterAgent;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    served = await startServedNode(readiness.binaries);
    agent = await startClusterAgent(served.plane, served.node, { identity: 'proxy' });
    await untilHolds(async () => expect(await served.reached()).toEqual(['web-1']), 60_000);
  });
  afterAll(async () => {
    await agent?.stop();
    await served?.remove();
  });
  afterEach(async () => {
    for (const key of [SERVICE, SLICE]) await served.plane.etcd.remove(key);
    await untilHolds(
      async () => expect([await problems(), await rows()]).toEqual([[], []]),
      60_000,
    );
  });

  const problems = async (): Promise<string[]> => {
    const status = await served.node.status();
    return status.problems.map(problemText);
  };
  const rows = async (): Promise<ServiceRow[]> => {
    const all = (await askAgent(served.node.instance.runDir, '/v1/services')) as ServiceRow[];
    return all.filter(({ name, kind }) => name === 'old' && kind !== 'NodePort');
  };
  const portOf = ({ frontend }: ServiceRow): number => Number(/:(\d+)\//.exec(frontend)?.[1]);
  const isToldOnce = (lines: readonly string[]): void => {
    const told = agent.log
      .filter((line) => line.includes('"input rejected"'))
      .map((line) => JSON.parse(line) as Record<string, string>)
      .map(({ object, field, reason }) => `${object}: ${field}: ${reason}`);
    for (const line of lines) expect(told.filter((text) => text === line)).toEqual([line]);
  };

  test.each(SERVICES)(
    'a Service with $name',
    async ({ object, problems: wanted, served: ports }) => {
      const lines = wanted.map((text) => `Service default/old: ${text}`);
      await served.plane.etcd.put(SERVICE, object);
      await untilHolds(async () => {
        expect(await problems()).toEqual(lines);
        expect((await rows()).map(portOf)).toEqual(ports);
      });
      await untilHolds(() => isToldOnce(lines));
      expect(await served.reached()).toEqual(['web-1']);
    },
  );

  test.each(SLICES)('a slice with $name', async ({ object, problems: wanted, backends }) => {
    const lines = wanted.map((text) => `EndpointSlice default/old: ${text}`);
    await served.plane.etcd.put(SERVICE, storedService({}));
    await served.plane.etcd.put(SLICE, object);
    await untilHolds(async () => {
      expect(await problems()).toEqual(lines);
      expect((await rows()).map(({ kernel }) => kernel)).toEqual([[...backends].sort()]);
    });
    await untilHolds(() => isToldOnce(lines));
    expect(await served.reached()).toEqual(['web-1']);
  });

  test('an object that becomes partly invalid goes on as it was, and the table shows what was rejected', async () => {
    const [pod] = served.node.pods('web-1');
    const target: Target = { protocol: 'TCP', address: ADDRESS, port: 80 };
    await served.plane.etcd.put(SERVICE, storedService({}));
    await served.plane.etcd.put(SLICE, storedSlice([at(pod!.ipv4)]));
    await untilHolds(async () => {
      expect(await served.node.client().once(target)).toMatchObject({ kind: 'answered' });
    });
    const load = await served.node.client().startLoad(target);
    await served.plane.etcd.put(
      SERVICE,
      storedService({ ports: [port('http', 80), port('x', 0)] }),
    );
    await served.plane.etcd.put(
      SLICE,
      storedSlice([at('127.0.0.1'), at(pod!.ipv4), at('nowhere')]),
    );
    await untilHolds(async () => expect(await problems()).toHaveLength(3), 60_000);
    const { stdout, code } = await runCommand(served.node.instance, [
      ...['status', ...ownPaths(served.node.instance).slice(2)],
    ]);
    const kept = (line: string) =>
      expect.stringMatching(new RegExp(`^${line}; the last good version .*keeps serving$`));
    expect(stdout.split('\n').filter((line) => line.startsWith('Rejected'))).toEqual([
      kept(
        'Rejected:   EndpointSlice default/old: endpoints\\[0\\].addresses\\[0\\]: 127.0.0.1 is a loopback address',
      ),
      kept(
        'Rejected:   EndpointSlice default/old: endpoints\\[2\\].addresses\\[0\\]: must be an IP address, not "nowhere"',
      ),
      kept(
        'Rejected:   Service default/old: spec.ports\\[1\\].port: must be a port number from 1 to 65535, not 0',
      ),
    ]);
    expect(code).toBe(3);
    const { failures, connections } = await load.stop();
    expect({ failures, isUsed: connections > 20 }).toEqual({ failures: [], isUsed: true });
  });
});
