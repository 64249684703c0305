// SPDX-License-Identifier: Apache-2.0
// A report is read back as it was written; other files are refused, with the field.
import { expect, test } from 'vitest';
import { parseReport } from '../../../../../tools/bench/report/read.ts';
import { SAMPLE } from './sample.ts';

const edited = (change: (report: Record<string, unknown>) => void): string => {
  const report = structuredClone(SAMPLE) as unknown as Record<string, unknown>;
  change(report);
  return JSON.stringify(report);
};

test('what was written is read back', () => {
  expect(parseReport(JSON.stringify(SAMPLE), 'x.json')).toEqual(SAMPLE);
  const { roll: _, ...without } = SAMPLE;
  expect(parseReport(JSON.stringify(without), 'x.json')).toEqual(without);
});

test.each([
  { name: 'no JSON', text: 'bench', reason: /x\.json is no report of fairlead bench: Unexpected/ },
  { name: 'another kind', text: '{"kind":"DemoReport"}', reason: /apiVersion: / },
  {
    name: 'a column of another program',
    text: edited((report) => {
      report['columns'] = ['cilium'];
    }),
    reason: /columns\.0: /,
  },
  {
    name: 'a sample that is no number',
    text: edited((report) => {
      (report['sizes'] as { samples: object }[])[1]!.samples = { start: { none: ['1'] } };
    }),
    reason: /sizes\.1\.samples\.start\.none\.0: /,
  },
])('refuses $name', ({ text, reason }) => {
  expect(() => parseReport(text, 'x.json')).toThrow(reason);
});
