// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { projectSlice } from '../../../../src/model/endpoints/slice.ts';
import { projectNode } from '../../../../src/model/node/node.ts';
import { projectServiceCidr } from '../../../../src/model/service/service-cidr.ts';
import type { EndpointSlice, ObjectRef } from '../../../../src/model/types.ts';
import { sliceMetadata, sliceObject } from '../../../support/objects.ts';

const REF: ObjectRef = { kind: 'EndpointSlice', namespace: 'default', name: 'web-1' };
const ENDPOINT = { addresses: ['10.1.1.5'] };
const PORT = { name: 'http', port: 8080, protocol: 'TCP' };
const SLICE = sliceObject('web', [ENDPOINT]);

const project = (patch: object, ref = REF) => projectSlice(ref, { ...SLICE, ...patch });

function slice(patch: object): EndpointSlice {
  const { value, rejections } = project(patch);
  expect(rejections).toEqual([]);
  if (value === undefined) throw new Error('skipped');
  return value;
}

describe('projectSlice', () => {
  it('fills in what is left out', () => {
    expect(slice({})).toEqual({
      name: 'web-1',
      service: 'default/web',
      family: 'IPv4',
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      addresses: ['10.1.1.5'],
      traits: [
        {
          isReady: true,
          isServing: true,
          isTerminating: false,
          nodeName: undefined,
          zone: undefined,
          zoneHints: [],
          nodeHints: [],
        },
      ],
    });
  });

  it.each<[string, object]>([
    ['without labels', { metadata: {} }],
    [
      'without the name of a Service',
      { metadata: { labels: { 'kubernetes.io/service-name': '' } } },
    ],
    [
      'for DNS alone',
      { metadata: sliceMetadata('web', 'web-1', { 'service.kubernetes.io/headless': '' }) },
    ],
  ])('skips a slice %s, without a word', (_, patch) => {
    expect(project(patch)).toEqual({ value: undefined, rejections: [] });
  });

  it('knows a slice of host names, and none of its endpoints', () => {
    const { value, rejections } = project({
      addressType: 'FQDN',
      endpoints: [{ addresses: ['example.com'] }],
    });
    expect(value).toMatchObject({ family: 'FQDN', addresses: [], traits: [] });
    expect(rejections).toEqual([]);
  });

  it.each<[string, object]>([
    ['addressType', { addressType: 'IPv5' }],
    ['addressType', { addressType: undefined }],
    [
      'metadata.labels["kubernetes.io/service-name"]',
      { metadata: { labels: { 'kubernetes.io/service-name': 7 } } },
    ],
    [
      'metadata.labels["kubernetes.io/service-name"]',
      { metadata: { labels: { 'kubernetes.io/service-name': 'a/b' } } },
    ],
  ])('rejects the whole slice for %s', (field, patch) => {
    const { value, rejections } = project(patch);
    expect(value).toBeUndefined();
    expect(rejections.map((rejection) => rejection.field)).toEqual([field]);
  });

  it.each<[string, unknown]>([
    ['ports[0].port', { name: 'x', port: 0 }],
    ['ports[0].port', { name: 'x', port: 70_000 }],
    ['ports[0].port', { name: 'x', port: '80' }],
    ['ports[0].protocol', { name: 'x', port: 80, protocol: 'QUIC' }],
    ['ports[0].name', { name: 'x'.repeat(64), port: 80 }],
    ['ports[0]', 'http'],
  ])('rejects a port for %s and keeps the others', (field, bad) => {
    const { value, rejections } = project({ ports: [bad, PORT] });
    expect(rejections.map((rejection) => rejection.field)).toEqual([field]);
    expect(value?.ports).toHaveLength(1);
  });

  it('ports without a name or a number mean nothing to a proxy', () => {
    expect(
      slice({
        ports: [{ port: 80 }, { name: 'x' }, { name: null, port: 81 }, { name: 'y', port: null }],
      }).ports,
    ).toEqual([]);
    expect(slice({ ports: [{ name: '', port: 80 }] }).ports).toEqual([
      { name: '', port: 80, protocol: 'TCP' },
    ]);
  });

  it.each<[string, unknown]>([
    ['endpoints[0]', 'x'],
    ['endpoints[0].addresses', { addresses: '10.1.1.6' }],
    ['endpoints[0].addresses[0]', { addresses: ['10.1.1'] }],
    ['endpoints[0].addresses[0]', { addresses: [7] }],
    ['endpoints[0].addresses[0]', { addresses: ['127.0.0.1'] }],
    ['endpoints[0].addresses[0]', { addresses: ['2001:db8::1'] }],
    ['endpoints[0].conditions', { addresses: ['10.1.1.6'], conditions: 'ready' }],
    ['endpoints[0].conditions', { addresses: ['10.1.1.6'], conditions: { ready: 'yes' } }],
  ])('rejects an endpoint for %s and keeps the others', (field, bad) => {
    const { value, rejections } = project({ endpoints: [bad, ENDPOINT] });
    expect(rejections.map((rejection) => rejection.field)).toEqual([field]);
    expect(value?.addresses).toEqual(['10.1.1.5']);
  });

  it.each<[string, object]>([
    ['endpoints[0].nodeName', { nodeName: 7 }],
    ['endpoints[0].zone', { zone: {} }],
    ['endpoints[0].hints', { hints: 'a' }],
    ['endpoints[0].hints.forZones', { hints: { forZones: 'a' } }],
    ['endpoints[0].hints.forNodes[0].name', { hints: { forNodes: [{}] } }],
  ])('rejects %s and keeps the endpoint', (field, patch) => {
    const { value, rejections } = project({ endpoints: [{ addresses: ['10.1.1.5'], ...patch }] });
    expect(rejections.map((rejection) => rejection.field)).toEqual([field]);
    expect(value?.addresses).toHaveLength(1);
  });

  it('reads hints as lists of names', () => {
    const hints = { forZones: [{ name: 'a' }, { name: 'b' }], forNodes: [{ name: 'n1' }] };
    const { traits } = slice({ endpoints: [{ addresses: ['10.1.1.5'], hints }] });
    expect(traits).toMatchObject([{ zoneHints: ['a', 'b'], nodeHints: ['n1'] }]);
  });

  it.each([
    [[{ terminating: true }, { ready: false }], { isTerminating: false, isReady: false }],
    [[{ ready: false }, { ready: true }], { isReady: true }],
    [
      [
        { ready: false, serving: false },
        { ready: false, serving: true },
      ],
      { isServing: true },
    ],
  ])('of one address twice the better counts, in either order: %j', (conditions, better) => {
    for (const order of [conditions, conditions.toReversed()]) {
      const endpoints = order.map((one) => ({ addresses: ['10.1.1.5'], conditions: one }));
      const found = slice({ endpoints: [{ addresses: ['10.1.1.6'] }, ...endpoints] });
      expect(found.addresses).toEqual(['10.1.1.5', '10.1.1.6']);
      expect(found.traits).toHaveLength(2);
      expect(found.traits[0]).toMatchObject(better);
    }
  });
});

describe('projectNode', () => {
  const ref: ObjectRef = { kind: 'Node', namespace: '', name: 'n1' };
  const addresses = [
    { type: 'Hostname', address: 'n1' },
    { type: 'ExternalIP', address: '203.0.113.1' },
    { type: 'InternalIP', address: '2001:DB8::11' },
    { type: 'InternalIP', address: '192.0.2.11' },
  ];

  it('has internal addresses before external ones', () => {
    expect(projectNode(ref, { status: { addresses } }).value).toEqual({
      name: 'n1',
      labels: '',
      zone: '',
      addresses: ['2001:db8::11', '192.0.2.11', '203.0.113.1'],
      podCidrs: [],
    });
  });

  it('has a zone and pod prefixes', () => {
    const labels = { 'topology.kubernetes.io/zone': 'a' };
    const spec = { podCIDR: '10.1.9.0/24', podCIDRs: ['10.1.1.7/24', '2001:db8::/64'] };
    const { value } = projectNode(ref, { metadata: { labels }, spec });
    expect(value).toMatchObject({ zone: 'a', podCidrs: ['10.1.1.0/24', '2001:db8::/64'] });
    expect(projectNode(ref, { spec: { podCIDR: '10.1.9.0/24' } }).value?.podCidrs).toEqual([
      '10.1.9.0/24',
    ]);
  });

  it.each<[string, object]>([
    [
      'status.addresses[0].address',
      { status: { addresses: [{ type: 'InternalIP', address: 'x' }] } },
    ],
    ['status.addresses[0]', { status: { addresses: [7] } }],
    ['spec.podCIDRs[0]', { spec: { podCIDRs: ['10.1.1.0'] } }],
    ['spec.podCIDR', { spec: { podCIDR: 'x' } }],
    [
      'metadata.labels["topology.kubernetes.io/zone"]',
      { metadata: { labels: { 'topology.kubernetes.io/zone': 1 } } },
    ],
    ['metadata.labels', { metadata: { labels: [] } }],
    ['metadata', { metadata: 'x' }],
  ])('rejects %s and keeps the Node', (field, object) => {
    const { value, rejections } = projectNode(ref, object);
    expect(rejections.map((rejection) => rejection.field)).toEqual([field]);
    expect(value?.name).toBe('n1');
  });
});

describe('projectServiceCidr', () => {
  const ref: ObjectRef = { kind: 'ServiceCIDR', namespace: '', name: 'kubernetes' };

  it('has the prefixes that can be read', () => {
    const { value, rejections } = projectServiceCidr(ref, {
      spec: { cidrs: ['10.96.0.1/16', 'x', 'FD00::/112'] },
    });
    expect(value).toEqual(['10.96.0.0/16', 'fd00::/112']);
    expect(rejections.map(({ field }) => field)).toEqual(['spec.cidrs[1]']);
  });

  it('is rejected if it is no object', () => {
    expect(projectServiceCidr(ref, 7).value).toBeUndefined();
  });
});

describe('weights', () => {
  const weights = (text: unknown, addresses = ['10.1.1.5', '10.1.1.6', '10.1.1.7']) =>
    project({
      metadata: { ...SLICE.metadata, annotations: { 'fairlead.io/weights': text } },
      endpoints: addresses.map((address) => ({ addresses: [address] })),
    });
  const FIELD = 'metadata.annotations["fairlead.io/weights"]';

  it.each<[string, string, readonly number[] | undefined]>([
    ['of some', '10.1.1.5=3,10.1.1.7=0', [3, 1, 0]],
    ['with blanks and lines', ' 10.1.1.5=3 \n 10.1.1.6=2, ', [3, 2, 1]],
    ['of all others', '*=10 10.1.1.6=1', [10, 1, 10]],
    ['in another form', '10.1.1.5=65535', [65_535, 1, 1]],
    ['that are usual', '*=1', undefined],
    ['of nobody', '', undefined],
  ])('%s are read', (_, text, read) => {
    const { value, rejections } = weights(text);
    expect(rejections).toEqual([]);
    expect(value?.weights).toEqual(read);
  });

  it.each<[string, unknown, string, readonly number[] | undefined]>([
    ['a weight below 0', '10.1.1.5=-1 10.1.1.6=2', '"10.1.1.5=-1" must be', [1, 2, 1]],
    ['a weight above 65535', '10.1.1.5=65536', '"10.1.1.5=65536" must be', undefined],
    ['a fraction', '10.1.1.5=0.5', '"10.1.1.5=0.5" must be', undefined],
    ['no address', 'web-1=2', '"web-1=2" must be', undefined],
    ['no weight', '10.1.1.5', '"10.1.1.5" must be', undefined],
    ['an address of no endpoint', '10.1.9.9=2', '10.1.9.9 is no endpoint', undefined],
    ['an address of the other family', 'fd00::1=2', 'fd00::1 is no endpoint', undefined],
    ['an address twice', '10.1.1.5=2 10.1.1.5=3', '10.1.1.5 is listed twice', [2, 1, 1]],
    ['no text', 7, 'must be text', undefined],
  ])('%s is rejected alone', (_, text, reason, read) => {
    const { value, rejections } = weights(text);
    expect(rejections).toMatchObject([{ field: FIELD, reason: expect.stringContaining(reason) }]);
    expect(value?.addresses).toHaveLength(3);
    expect(value?.weights).toEqual(read);
  });

  it('are found for an address in any form', () => {
    const { value, rejections } = projectSlice(REF, {
      ...SLICE,
      addressType: 'IPv6',
      metadata: { ...SLICE.metadata, annotations: { 'fairlead.io/weights': 'FD00:0::1=4' } },
      endpoints: [{ addresses: ['fd00::1'] }],
    });
    expect(rejections).toEqual([]);
    expect(value?.weights).toEqual([4]);
  });

  it('are rejected where annotations are no object', () => {
    const { rejections } = project({ metadata: { ...SLICE.metadata, annotations: 7 } });
    expect(rejections).toMatchObject([{ field: 'metadata.annotations' }]);
  });
});
