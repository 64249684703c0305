// SPDX-License-Identifier: Apache-2.0
// What is kept of an object: all that the model reads, and nothing else.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ANNOTATION_ROWS } from '../../../../../src/model/annotations.ts';
import { projectSlice } from '../../../../../src/model/endpoints/slice.ts';
import { projectNode } from '../../../../../src/model/node/node.ts';
import { projectService } from '../../../../../src/model/service/service.ts';
import { projectServiceCidr } from '../../../../../src/model/service/service-cidr.ts';
import { createIntern, MAX_TEXTS } from '../../../../../src/source/apiserver/decode/intern.ts';
import {
  ownNode,
  SERVICE_CIDRS,
  SERVICES,
  SLICES,
} from '../../../../../src/source/apiserver/kinds.ts';
import { node, service, slice } from '../support/objects.ts';

const intern = createIntern();

describe('pruned objects', () => {
  test.each([
    ['a Service', SERVICES, projectService, service('web')],
    ['a slice', SLICES, projectSlice, slice('web-1', ['10.1.0.1', '10.1.0.2'])],
    ['a Node', ownNode('n'), projectNode, node('n')],
    [
      'a ServiceCIDR',
      SERVICE_CIDRS,
      projectServiceCidr,
      { metadata: { name: 'c' }, spec: { cidrs: ['10.96.0.0/16'] } },
    ],
  ])('%s means the same to the model', (_what, spec, project, object) => {
    const ref = { kind: spec.kind, namespace: 'default', name: object.metadata.name };
    expect(project(ref, spec.prune(object, intern))).toEqual(project(ref, object));
    expect(project(ref, object).value).toBeDefined();
  });

  test('every annotation that users write is kept', () => {
    const annotations = Object.fromEntries(ANNOTATION_ROWS.map(({ name }) => [name, 'x']));
    const object = { metadata: { name: 'web', annotations } };
    expect(SERVICES.prune(object, intern)).toMatchObject({ metadata: { annotations } });
  });

  test('managedFields, foreign annotations, targetRef and conditions are gone', () => {
    const text = JSON.stringify([
      SERVICES.prune(service('web'), intern),
      SLICES.prune(slice('web-1'), intern),
      ownNode('n').prune(node('n'), intern),
    ]);
    for (const gone of ['managedFields', 'note', 'targetRef', 'lastHeartbeatTime', 'images']) {
      expect(text).not.toContain(gone);
    }
    expect(text).toContain('last-change-trigger-time');
  });

  test('equal conditions are one record, and names of Nodes one text', () => {
    const parsed = () => JSON.parse(JSON.stringify(slice('web-1'))) as ReturnType<typeof slice>;
    const [a, b] = [SLICES.prune(parsed(), intern), SLICES.prune(parsed(), intern)];
    const first = (object: Readonly<Record<string, unknown>>) =>
      (object['endpoints'] as readonly Record<string, unknown>[])[0];
    expect(first(a)?.['conditions']).toBe(first(b)?.['conditions']);
    expect(first(a)?.['conditions']).toEqual({ ready: true, serving: true, terminating: false });
  });

  test('nothing that a server can send makes it throw, and the model says the same of it', () => {
    const specs = [SERVICES, SLICES, ownNode('n'), SERVICE_CIDRS];
    const projects = [projectService, projectSlice, projectNode, projectServiceCidr];
    const keys = ['metadata', 'spec', 'status', 'endpoints', 'ports', 'addressType'];
    const anyValue = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.array(fc.record({ addresses: fc.jsonValue(), conditions: fc.jsonValue() })),
    );
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...keys), anyValue), (object) => {
        for (const [index, spec] of specs.entries()) {
          const pruned = spec.prune(object, intern);
          spec.isWanted(pruned);
          const ref = { kind: spec.kind, namespace: 'd', name: 'n' };
          expect(projects[index]?.(ref, pruned)).toEqual(projects[index]?.(ref, object));
        }
      }),
    );
  });
});

test('the store of texts does not grow without limit', () => {
  const known = new Map<string, string>();
  const small = createIntern(known);
  for (let index = 0; index < 2 * MAX_TEXTS + 10; index += 1) small(`node-${index}`);
  expect(known.size).toBeLessThanOrEqual(MAX_TEXTS);
  expect(small('node-1')).toBe('node-1');
  expect(small(7)).toBe(7);
});
