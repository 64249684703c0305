// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { CHOICES } from '../../../../src/model/annotations.ts';
import { projectService } from '../../../../src/model/service/service.ts';
import type { ObjectRef, Service } from '../../../../src/model/types.ts';
import { clusterIp, serviceObject } from '../../../support/objects.ts';

const REF: ObjectRef = { kind: 'Service', namespace: 'default', name: 'web' };
const SPEC = { ...clusterIp('10.96.0.10'), ports: [{ name: 'http', port: 80 }] };

const project = (spec: object, rest: object = {}, ref = REF) =>
  projectService(ref, serviceObject(ref.name, { ...SPEC, ...spec }, { ...rest }));

function service(spec: object, rest: object = {}): Service {
  const { value, rejections } = project(spec, rest);
  expect(rejections).toEqual([]);
  if (value === undefined) throw new Error('skipped');
  return value;
}

const refusedFields = (spec: object, rest: object = {}): readonly string[] =>
  project(spec, rest).rejections.map(({ field }) => field);

describe('projectService', () => {
  it('fills in the defaults of the API', () => {
    expect(service({})).toEqual({
      namespace: 'default',
      name: 'web',
      type: 'ClusterIP',
      labels: '',
      createdAtMs: Number.POSITIVE_INFINITY,
      ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: undefined, index: 0 }],
      clusterIps: { IPv4: { address: '10.96.0.10', field: 'spec.clusterIP' }, IPv6: undefined },
      externalIps: [],
      loadBalancerIps: [],
      internalPolicy: 'Cluster',
      externalPolicy: 'Cluster',
      affinityTimeoutSeconds: 0,
      sources: { IPv4: undefined, IPv6: undefined },
      healthCheckNodePort: undefined,
    });
  });

  it('keeps labels as one sorted text; what is no text does not count', () => {
    const labels = { tier: 'front', app: 'web', empty: '', bad: 1 };
    expect(service({}, { metadata: { labels } }).labels).toBe('app=web,empty=,tier=front');
  });

  it.each([
    ['without a ClusterIP', { clusterIP: undefined }, {}],
    ['with an empty ClusterIP', { clusterIP: '' }, {}],
    ['that is headless', { clusterIP: 'None' }, {}],
    ['of type ExternalName', { type: 'ExternalName', externalName: 'example.com' }, {}],
    [
      'of another proxy, whatever the label says',
      {},
      { metadata: { labels: { 'service.kubernetes.io/service-proxy-name': '' } } },
    ],
  ])('skips a Service %s, without a word', (_, spec, rest) => {
    expect(project(spec, rest)).toEqual({ value: undefined, rejections: [] });
  });

  it.each<[string, object, object?]>([
    ['spec.clusterIP', { clusterIP: '10.96.0.999' }],
    ['spec.clusterIP', { clusterIP: 7 }],
    ['spec.clusterIP', { clusterIP: '127.0.0.1' }],
    ['spec.type', { type: 'Ingress' }],
    ['spec', {}, { spec: 'none' }],
    ['spec', {}, { spec: null }],
  ])('rejects the whole Service for %s', (field, spec, rest = {}) => {
    const { value, rejections } = project(spec, rest);
    expect(value).toBeUndefined();
    expect(rejections.map((rejection) => rejection.field)).toEqual([field]);
    expect(rejections[0]?.object).toEqual(REF);
  });

  it.each([
    ['metadata.name', { ...REF, name: 'x'.repeat(64) }],
    ['metadata.name', { ...REF, name: 'a/b' }],
    ['metadata.namespace', { ...REF, namespace: 'x'.repeat(64) }],
    ['metadata.namespace', { ...REF, namespace: '' }],
  ])('rejects a Service that cannot be named: %s', (field, ref) => {
    const { value, rejections } = project({}, {}, ref as ObjectRef);
    expect(value).toBeUndefined();
    expect(rejections.map((rejection) => rejection.field)).toEqual([field]);
  });

  it('takes names of 63 characters', () => {
    const long = 'x'.repeat(63);
    const { value } = project(
      { ports: [{ name: long, port: 80 }] },
      {},
      { kind: 'Service', namespace: long, name: long },
    );
    expect(value?.ports[0]?.name).toBe(long);
  });

  it.each<[string, unknown]>([
    ['spec.ports[0].port', { port: 0 }],
    ['spec.ports[0].port', { port: 70_000 }],
    ['spec.ports[0].port', { port: '80' }],
    ['spec.ports[0].port', { port: 80.5 }],
    ['spec.ports[0].port', {}],
    ['spec.ports[0].protocol', { port: 80, protocol: 'tcp' }],
    ['spec.ports[0].protocol', { port: 80, protocol: 6 }],
    ['spec.ports[0].name', { port: 80, name: 'x'.repeat(64) }],
    ['spec.ports[0].name', { port: 80, name: 'a b' }],
    ['spec.ports[0].name', { port: 80, name: 5 }],
    ['spec.ports[0]', 80],
    ['spec.ports[0]', null],
  ])('rejects a port for %s and keeps the others', (field, bad) => {
    const { value, rejections } = project({ ports: [bad, { name: 'good', port: 81 }] });
    expect(rejections.map((rejection) => rejection.field)).toEqual([field]);
    expect(value?.ports.map(({ name }) => name)).toEqual(['good']);
  });

  it('rejects a NodePort alone', () => {
    const { value, rejections } = project({ ports: [{ port: 80, nodePort: 65_536 }] });
    expect(rejections[0]?.field).toBe('spec.ports[0].nodePort');
    expect(value?.ports[0]).toMatchObject({ port: 80, nodePort: undefined });
  });

  it.each<[string, readonly object[], number]>([
    [
      'spec.ports[1].name',
      [
        { name: 'a', port: 80 },
        { name: 'a', port: 81 },
      ],
      1,
    ],
    [
      'spec.ports[1].port',
      [
        { name: 'a', port: 80 },
        { name: 'b', port: 80 },
      ],
      1,
    ],
    [
      'spec.ports[1].nodePort',
      [
        { name: 'a', port: 80, nodePort: 30080 },
        { name: 'b', port: 81, nodePort: 30080 },
      ],
      2,
    ],
  ])('of two ports that ask for one thing the first has it: %s', (field, ports, kept) => {
    const { value, rejections } = project({ ports });
    expect(rejections.map((rejection) => rejection.field)).toEqual([field]);
    expect(value?.ports).toHaveLength(kept);
    expect(value?.ports.filter(({ nodePort }) => nodePort === 30080).length).toBeLessThan(2);
  });

  it('one name, number and NodePort serve two protocols', () => {
    const port = { name: 'dns', port: 53, nodePort: 30053 };
    const { ports } = service({ ports: [port, { ...port, protocol: 'UDP' }] });
    expect(ports.map(({ protocol, nodePort }) => [protocol, nodePort])).toEqual([
      ['TCP', 30053],
      ['UDP', 30053],
    ]);
  });

  it('has the ClusterIP of each family at its index', () => {
    const { clusterIps } = service({
      clusterIP: 'fd00:96::A',
      clusterIPs: ['fd00:96::A', '10.96.0.10'],
      ipFamilies: ['IPv6', 'IPv4'],
    });
    expect(clusterIps.IPv6?.address).toBe('fd00:96::a');
    expect(clusterIps.IPv4).toEqual({ address: '10.96.0.10', field: 'spec.clusterIPs[1]' });
  });

  it('without ipFamilies only clusterIP counts', () => {
    const { clusterIps } = service({
      ipFamilies: undefined,
      clusterIPs: ['10.96.0.10', 'fd00::1'],
    });
    expect(clusterIps.IPv4?.address).toBe('10.96.0.10');
    expect(clusterIps.IPv6).toBeUndefined();
  });

  it('without clusterIPs the first family has clusterIP', () => {
    expect(service({ clusterIPs: undefined }).clusterIps.IPv4?.address).toBe('10.96.0.10');
  });

  it.each<[string, object]>([
    [
      'spec.clusterIPs[1]',
      { ipFamilies: ['IPv4', 'IPv6'], clusterIPs: ['10.96.0.10', '10.96.0.11'] },
    ],
    ['spec.clusterIPs[1]', { ipFamilies: ['IPv4', 'IPv6'], clusterIPs: ['10.96.0.10', 'x'] }],
    ['spec.ipFamilies[1]', { ipFamilies: ['IPv4', 'IPv5'] }],
    ['spec.ipFamilies', { ipFamilies: 'IPv4' }],
    ['spec.clusterIPs', { clusterIPs: '10.96.0.10' }],
    ['spec.ports', { ports: {} }],
    ['spec.externalIPs', { externalIPs: '203.0.113.20' }],
    ['spec.externalIPs[1]', { externalIPs: ['203.0.113.20', '203.0.113'] }],
    ['spec.externalIPs[0]', { externalIPs: ['127.0.0.1'] }],
    ['spec.externalIPs[0]', { externalIPs: ['0.0.0.0'] }],
    ['spec.internalTrafficPolicy', { internalTrafficPolicy: 'local' }],
    ['spec.externalTrafficPolicy', { externalTrafficPolicy: 1 }],
    ['spec.sessionAffinity', { sessionAffinity: 'Cookie' }],
    ['spec.sessionAffinityConfig', { sessionAffinity: 'ClientIP', sessionAffinityConfig: 5 }],
    [
      'spec.sessionAffinityConfig.clientIP.timeoutSeconds',
      { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 0 } } },
    ],
    [
      'spec.sessionAffinityConfig.clientIP.timeoutSeconds',
      {
        sessionAffinity: 'ClientIP',
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 86_401 } },
      },
    ],
    ['spec.loadBalancerSourceRanges', { loadBalancerSourceRanges: '10.0.0.0/8' }],
    ['spec.loadBalancerSourceRanges[1]', { loadBalancerSourceRanges: ['10.0.0.0/8', '10.0.0.0'] }],
    ['spec.healthCheckNodePort', { healthCheckNodePort: 70_000 }],
  ])('rejects %s and keeps the Service', (field, spec) => {
    const { value, rejections } = project(spec);
    expect(rejections.map((rejection) => rejection.field)).toEqual([field]);
    expect(value?.clusterIps.IPv4?.address).toBe('10.96.0.10');
  });

  it.each<[string, unknown]>([
    ['status', 'up'],
    ['status.loadBalancer', { loadBalancer: [] }],
    ['status.loadBalancer.ingress', { loadBalancer: { ingress: {} } }],
    ['status.loadBalancer.ingress[0]', { loadBalancer: { ingress: ['203.0.113.10'] } }],
    ['status.loadBalancer.ingress[0].ip', { loadBalancer: { ingress: [{ ip: '203.0.113' }] } }],
    ['status.loadBalancer.ingress[0].ip', { loadBalancer: { ingress: [{ ip: '127.0.0.1' }] } }],
    [
      'status.loadBalancer.ingress[0].ipMode',
      { loadBalancer: { ingress: [{ ip: '203.0.113.10', ipMode: 'vip' }] } },
    ],
    ['metadata.creationTimestamp', undefined],
  ])('rejects %s', (field, status) => {
    const isTime = field.startsWith('metadata');
    const rest = isTime ? { metadata: { creationTimestamp: 'yesterday' } } : { status };
    expect(refusedFields({}, rest)).toEqual([field]);
  });

  it('knows its age', () => {
    const metadata = { creationTimestamp: '2026-01-31T08:00:00Z' };
    expect(service({}, { metadata }).createdAtMs).toBe(1_769_846_400_000);
    expect(service({}, { metadata: { creationTimestamp: null } }).createdAtMs).toBe(
      Number.POSITIVE_INFINITY,
    );
  });

  it('lists each address once, in canonical form', () => {
    const status = {
      loadBalancer: {
        ingress: [{ ip: '203.0.113.010' }, { ip: '203.0.113.10' }, { hostname: 'lb' }],
      },
    };
    const found = service(
      { externalIPs: ['2001:DB8::1', '2001:db8::1', '203.0.113.20'] },
      { status },
    );
    expect(found.externalIps.map(({ address }) => address)).toEqual([
      '2001:db8::1',
      '203.0.113.20',
    ]);
    expect(found.loadBalancerIps).toEqual([
      { address: '203.0.113.10', field: 'status.loadBalancer.ingress[0].ip' },
    ]);
  });

  it('external policy Local needs a way in from outside', () => {
    const local = { externalTrafficPolicy: 'Local' };
    expect(service(local).externalPolicy).toBe('Cluster');
    expect(service({ ...local, type: 'NodePort' }).externalPolicy).toBe('Local');
    expect(service({ ...local, externalIPs: ['203.0.113.20'] }).externalPolicy).toBe('Local');
  });

  it.each([
    [{ type: 'LoadBalancer', externalTrafficPolicy: 'Local' }, 32000],
    [{ type: 'LoadBalancer' }, undefined],
    [{ type: 'NodePort', externalTrafficPolicy: 'Local' }, undefined],
  ])('has a health check port only as a balancer of policy Local: %j', (spec, port) => {
    expect(service({ ...spec, healthCheckNodePort: 32000 }).healthCheckNodePort).toBe(port);
    expect(service({ ...spec, healthCheckNodePort: 0 }).healthCheckNodePort).toBeUndefined();
  });

  it('the health check port cannot be a NodePort of the same Service', () => {
    const spec = {
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32000,
      ports: [{ port: 80, nodePort: 32000 }],
    };
    expect(refusedFields(spec)).toEqual(['spec.healthCheckNodePort']);
  });

  it('reads source ranges per family, sorted and canonical', () => {
    const loadBalancerSourceRanges = [
      '198.51.100.9/24',
      ' 10.0.0.0/8 ',
      '10.9.9.9/8',
      '2001:DB8::/32',
    ];
    expect(service({ loadBalancerSourceRanges }).sources).toEqual({
      IPv4: { policy: 'allow', ranges: ['10.0.0.0/8', '198.51.100.0/24'] },
      IPv6: { policy: 'allow', ranges: ['2001:db8::/32'] },
    });
  });

  it('lists no more than a few problems of one object', () => {
    const ports = Array.from({ length: 100_000 }, () => ({ port: 0 }));
    const { rejections } = project({ ports });
    expect(rejections).toHaveLength(51);
    expect(rejections.at(-1)?.reason).toContain('further problems');
  });
});

describe.each(Object.entries(CHOICES))('the choice of %s', (field, { name, values, instead }) => {
  const annotated = (text: unknown) =>
    project({}, { metadata: { annotations: { [name]: text, note: 7 } } });

  it.each<string>(values)('%j is read', (text) => {
    expect(annotated(text)).toMatchObject({ value: { [field]: text }, rejections: [] });
    expect(annotated(` ${text}\n`)).toEqual(annotated(text));
  });

  it.each([
    ['UNKNOWN', `must be one of ${values.join(', ')}, not "UNKNOWN"`, instead],
    ['', `must be one of ${values.join(', ')}, not ""`, instead],
    [7, 'must be text, not 7', undefined],
    [{}, 'must be text', undefined],
  ])('%j is rejected, and the Service has none', (text, reason, counts) => {
    const { value, rejections } = annotated(text);
    expect(value).toBeDefined();
    expect(value).not.toHaveProperty(field);
    expect(rejections).toMatchObject([
      {
        field: `metadata.annotations["${name}"]`,
        reason: expect.stringContaining(reason),
        ...(counts && { instead: counts }),
      },
    ]);
  });
});

describe('the size of Maglev tables', () => {
  const sized = (text: unknown) =>
    project({}, { metadata: { annotations: { 'fairlead.io/table-size': text } } });

  it.each([
    ['251', 251],
    [' 1009\n', 1009],
    ['131071', 131_071],
  ])('%j is read', (text, tableEntries) => {
    expect(sized(text)).toMatchObject({ value: { tableEntries }, rejections: [] });
  });

  it.each([
    ['1000', 'must be a prime, and 1000 is none'],
    ['241', 'must be from 251 to 131071, not 241'],
    ['131101', 'must be from 251 to 131071, not 131101'],
    ['large', 'must be a number, not "large"'],
    ['-251', 'must be a number, not "-251"'],
    ['1e3', 'must be a number, not "1e3"'],
    ['', 'must be a number, not ""'],
    [251, 'must be text'],
  ])('%j is rejected, and the Service has none', (text, reason) => {
    const { value, rejections } = sized(text);
    expect(value).toBeDefined();
    expect(value).not.toHaveProperty('tableEntries');
    expect(rejections).toMatchObject([
      {
        field: 'metadata.annotations["fairlead.io/table-size"]',
        reason: expect.stringContaining(reason),
      },
    ]);
  });
});

describe('the PROXY protocol', () => {
  const asked = (text: string) =>
    project({}, { metadata: { annotations: { 'fairlead.io/proxy-protocol': text } } });

  it('is version 2 or absent', () => {
    expect(asked(' v2 ')).toMatchObject({ value: { proxyProtocol: 'v2' }, rejections: [] });
    expect(project({}, {}).value).not.toHaveProperty('proxyProtocol');
  });

  it('a version that there is not is rejected, and none is used', () => {
    const { value, rejections } = asked('v1');
    expect(value).not.toHaveProperty('proxyProtocol');
    expect(rejections).toMatchObject([{ reason: 'must be one of v2, not "v1"' }]);
  });
});
