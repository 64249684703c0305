// SPDX-License-Identifier: Apache-2.0
// Unknown fields are told as kubectl's strict validation tells them, and no field of the API is unknown.
import * as client from '@kubernetes/client-node';
import { describe, expect, test } from 'vitest';
import { lineFinder } from '../../../../src/lib/yaml/lines.ts';
import type { Kind } from '../../../../src/model/types.ts';
import { unknownFields } from '../../../../src/source/manifests/known-fields.ts';
import { parseManifests } from '../../../../src/source/manifests/parse.ts';

const unknown = (text: string) => {
  const parsed = parseManifests('a.yaml', text);
  if (!parsed.ok) throw new Error(parsed.problem.reason);
  return parsed.manifests.flatMap(({ at, unknownFields: fields }) =>
    fields.map((field) => `${lineFinder(text)(at, field)} ${field}`),
  );
};

test.each([
  ['spec:\n  prots: []', '5 spec.prots'],
  ['spec:\n  ports:\n    - port: 80\n      prot: TCP', '7 spec.ports[0].prot'],
  ['spce: {}', '4 spce'],
  ['status:\n  loadBalancer: { ingres: [] }', '5 status.loadBalancer.ingres'],
])('%j: %s', (rest, says) => {
  expect(unknown(`apiVersion: v1\nkind: Service\nmetadata: { name: web }\n${rest}\n`)).toEqual([
    says,
  ]);
});

test('what is of the wrong type is left to the model, and maps may have any key', () => {
  expect(unknownFields('Service', { spec: 'x', metadata: { labels: { any: '1' } } })).toEqual([]);
  expect(unknownFields('Service', { spec: { ports: { a: 1 }, selector: { b: '' } } })).toEqual([]);
});

test('what Kubernetes 1.37 has added is known', () => {
  const spec = { podPreemptionPolicy: { disableResizePreemption: ['Always'] } };
  expect(unknownFields('Node', { spec })).toEqual([]);
});

interface Model {
  getAttributeTypeMap(): readonly { readonly baseName: string; readonly type: string }[];
}

const isModel = (value: unknown): value is Model =>
  typeof value === 'function' && 'getAttributeTypeMap' in value;

/** An object with every field that the client knows of a type. */
function fullObject(type: string, depth = 0): unknown {
  const [, item] = /^Array<(.*)>$/.exec(type) ?? [];
  if (item !== undefined) return [fullObject(item, depth)];
  const model: unknown = Reflect.get(client, type);
  if (!isModel(model) || depth > 6) return '';
  const fields = model.getAttributeTypeMap();
  return Object.fromEntries(
    fields.map(({ baseName, type: inner }) => [baseName, fullObject(inner, depth + 1)]),
  );
}

describe('no field that the Kubernetes client knows is unknown', () => {
  test.each<[Kind, string]>([
    ['Service', 'V1Service'],
    ['EndpointSlice', 'V1EndpointSlice'],
    ['Node', 'V1Node'],
    ['ServiceCIDR', 'V1ServiceCIDR'],
  ])('%s', (kind, type) => {
    const object = fullObject(type);
    expect(Object.keys(object as object)).toContain('metadata');
    expect(unknownFields(kind, object)).toEqual([]);
  });
});
