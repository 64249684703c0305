// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { fillTemplate } from '../../../src/cli/view/jsonpath.ts';

const LIST = {
  kind: 'XList',
  items: [
    { name: 'web', port: 80, backends: ['a', 'b'] },
    { name: 'dns', port: 53, backends: [] },
  ],
};

test.each([
  ['{.kind}', 'XList'],
  ['.kind', 'XList'],
  ['{.items[*].name}', 'web dns'],
  ['{.items[0].backends}', '["a","b"]'],
  ['{.items[?(@.port==53)].name}', 'dns'],
  ['kind: {.kind}{"\\n"}', 'kind: XList\n'],
  ['{range .items[*]}{.name}={.port}{"\\n"}{end}', 'web=80\ndns=53\n'],
  ['{range .items[*]}{.name}:{range .backends[*]} {@}{end};{end}', 'web: a b;dns:;'],
  ['{"}"}', '}'],
  ['{.absent}', ''],
])('%s', async (template, text) => {
  expect(await fillTemplate(template, LIST)).toBe(text);
});

test.each(['{.kind', '{end}', '{range .items[*]}'])('%s is refused', async (template) => {
  await expect(fillTemplate(template, LIST)).rejects.toThrow(/-o jsonpath: /);
});

test('a filter is not executed as a program', async () => {
  const template = '{.items[?(globalThis.process.exit())].name}';
  await expect(fillTemplate(template, LIST).catch(() => 'refused')).resolves.toMatch(
    /^(refused)?$/,
  );
});
