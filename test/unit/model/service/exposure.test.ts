// SPDX-License-Identifier: Apache-2.0
// The annotations that say who may reach a Service and where: what each value means, and what one means that is wrong.
import { describe, expect, test } from 'vitest';
import { projectService } from '../../../../src/model/service/service.ts';
import type { Service } from '../../../../src/model/types.ts';

const NOBODY = { policy: 'allow', ranges: [] };
const A = '198.51.100.0/24';

interface Read {
  readonly service: Service;
  /** Names of the annotations that are rejected. */
  readonly rejected: readonly string[];
}

function read(annotations: Readonly<Record<string, unknown>>, spec: object = {}): Read {
  const named = Object.entries(annotations).map(([name, value]) => [`fairlead.io/${name}`, value]);
  const { value, rejections } = projectService(
    { kind: 'Service', namespace: 'default', name: 'web' },
    {
      metadata: { annotations: Object.fromEntries(named) },
      spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }], ...spec },
    },
  );
  if (value === undefined) throw new Error('no Service');
  const nameIn = (field: string): string => /fairlead\.io\/([a-z-]+)/.exec(field)?.[1] ?? field;
  return { service: value, rejected: rejections.map(({ field }) => nameIn(field)) };
}

describe('source ranges', () => {
  test.each<[what: string, annotations: object, IPv4: object | undefined, isAll: boolean]>([
    [
      'a list',
      { 'source-ranges': `${A}, 10.9.9.9/8` },
      { policy: 'allow', ranges: ['10.0.0.0/8', A] },
      true,
    ],
    [
      'one that denies',
      { 'source-ranges': A, 'source-ranges-policy': 'deny' },
      { policy: 'deny', ranges: [A] },
      true,
    ],
    [
      'for balancers alone',
      { 'source-ranges': A, 'source-ranges-scope': 'LoadBalancer' },
      { policy: 'allow', ranges: [A] },
      false,
    ],
    ['everyone', { 'source-ranges': `0.0.0.0/0,${A}` }, undefined, true],
    ['nobody', { 'source-ranges': '0.0.0.0/0', 'source-ranges-policy': 'deny' }, NOBODY, true],
    ['the other family', { 'source-ranges': '2001:db8::/32' }, NOBODY, true],
    [
      'the other family denied',
      { 'source-ranges': '2001:db8::/32', 'source-ranges-policy': 'deny' },
      undefined,
      true,
    ],
    ['no ranges to deny', { 'source-ranges-policy': 'deny' }, undefined, false],
  ])('%s', (_what, annotations, IPv4, isAll) => {
    const { service, rejected } = read(annotations as Record<string, unknown>);
    expect(service.sources.IPv4).toEqual(IPv4);
    expect(service.filtersAll ?? false).toBe(isAll);
    expect(rejected).toEqual([]);
  });

  test.each<[annotations: object, IPv4: object | undefined, rejected: string]>([
    [{ 'source-ranges': '198.51.100.0' }, NOBODY, 'source-ranges'],
    [{ 'source-ranges': `${A}, x` }, { policy: 'allow', ranges: [A] }, 'source-ranges'],
    [{ 'source-ranges': '' }, NOBODY, 'source-ranges'],
    [{ 'source-ranges': 7 }, NOBODY, 'source-ranges'],
    [{ 'source-ranges': `${A}, x`, 'source-ranges-policy': 'deny' }, NOBODY, 'source-ranges'],
    [{ 'source-ranges': A, 'source-ranges-policy': 'Deny' }, NOBODY, 'source-ranges-policy'],
    [{ 'source-ranges': A, 'source-ranges-policy': ['deny'] }, NOBODY, 'source-ranges-policy'],
  ])('%j is rejected, and opens nothing', (annotations, IPv4, name) => {
    const { service, rejected } = read(annotations as Record<string, unknown>);
    expect(service.sources.IPv4).toEqual(IPv4);
    expect(rejected).toEqual([name]);
  });

  test('a scope that cannot be read is all', () => {
    const spec = { type: 'LoadBalancer', loadBalancerSourceRanges: [A] };
    const { service, rejected } = read({ 'source-ranges-scope': 'ALL' }, spec);
    expect(service).toMatchObject({ filtersAll: true });
    expect(rejected).toEqual(['source-ranges-scope']);
    expect(read({}, spec).service.filtersAll).toBeUndefined();
    expect(read({ 'source-ranges-scope': ' all ' }, spec)).toMatchObject({
      service: { filtersAll: true },
      rejected: [],
    });
  });
});

describe('exposure', () => {
  test.each<[annotations: object, exposure: object | undefined]>([
    [{}, undefined],
    [{ expose: 'NodePort, ClusterIP' }, { kinds: ['ClusterIP', 'NodePort'] }],
    [{ expose: 'LoadBalancer' }, { kinds: ['LoadBalancer'] }],
    [{ 'expose-on-nodes': ' zone in (a, b),!spare ' }, { nodes: 'zone in (a, b),!spare' }],
  ])('%j', (annotations, exposure) => {
    const { service, rejected } = read(annotations as Record<string, unknown>);
    expect(service.exposure).toEqual(exposure);
    expect(rejected).toEqual([]);
  });

  test.each<[annotations: object, exposure: object, rejected: string]>([
    [{ expose: 'LoadBalancer, Nodeport' }, { kinds: ['LoadBalancer'] }, 'expose'],
    [{ expose: 'none' }, { kinds: [] }, 'expose'],
    [{ expose: '' }, { kinds: [] }, 'expose'],
    [{ expose: ['NodePort'] }, { kinds: [] }, 'expose'],
    [{ 'expose-on-nodes': 'zone in (a' }, { nodes: '' }, 'expose-on-nodes'],
    [{ 'expose-on-nodes': '' }, { nodes: '' }, 'expose-on-nodes'],
    [{ 'expose-on-nodes': false }, { nodes: '' }, 'expose-on-nodes'],
  ])('%j is rejected, and exposes nothing', (annotations, exposure, name) => {
    const { service, rejected } = read(annotations as Record<string, unknown>);
    expect(service.exposure).toEqual(exposure);
    expect(rejected).toEqual([name]);
  });
});
