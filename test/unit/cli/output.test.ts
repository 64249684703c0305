// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { machine, parseFormat } from '../../../src/cli/output.ts';
import { textLine } from '../../../src/log.ts';

test('formats are names or templates', async () => {
  const formats = ['table', 'json', 'yaml'] as const;
  const value = { kind: 'XList', items: [] };
  expect(await machine(value, parseFormat('json', formats))).toBe(
    '{\n  "kind": "XList",\n  "items": []\n}',
  );
  expect(await machine(value, parseFormat('yaml', formats))).toBe('kind: XList\nitems: []');
  expect(await machine(value, parseFormat('jsonpath={.kind}', formats))).toBe('XList');
  for (const bad of ['wide', 'jsonpath', 'jsonpath=', ''])
    expect(() => parseFormat(bad, formats)).toThrow(/table, json, yaml, jsonpath=TEMPLATE/);
});

test('log lines for people: letter, time, message, fields', () => {
  const json =
    '{"level":"warn","time":"2026-11-21T13:20:58.123Z","msg":"input rejected","file":"a b","line":3}\n';
  expect(textLine(json)).toBe('W1121 13:20:58.123 input rejected file="a b" line=3\n');
});
