// SPDX-License-Identifier: Apache-2.0
import { expect, it } from 'vitest';
import { directReturnText } from '../../../../src/model/direct-return/annotation.ts';
import { projectNode } from '../../../../src/model/node/node.ts';

const FIELD = 'metadata.annotations["fairlead.io/direct-return"]';
const project = (text: unknown) =>
  projectNode(
    { kind: 'Node', namespace: '', name: 'n2' },
    { metadata: { annotations: { 'fairlead.io/direct-return': text } } },
  );

it.each([
  ['geneve/1', 6081],
  [' geneve/1\n', 6081],
  ['geneve/1:7081', 7081],
  // Of a later agent: not for this one, and nobody's mistake.
  ['geneve/2', undefined],
  ['ipip/1', undefined],
])('%j means port %s', (text, port) => {
  const { value, rejections } = project(text);
  expect([value?.directReturnPort, rejections]).toEqual([port, []]);
});

it.each([[''], ['geneve'], ['geneve/1:0'], ['geneve/1:70000'], ['geneve/1 7081'], [7]])(
  '%j is rejected, and the Node takes none',
  (text) => {
    const { value, rejections } = project(text);
    expect(value).not.toHaveProperty('directReturnPort');
    expect(rejections.map(({ field }) => field)).toEqual([FIELD]);
  },
);

it.each([6081, 7081])('what an agent writes for port %i is read as that', (port) => {
  expect(project(directReturnText(port)).value?.directReturnPort).toBe(port);
});
