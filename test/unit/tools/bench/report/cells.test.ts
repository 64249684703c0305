// SPDX-License-Identifier: Apache-2.0
// Which column the ratios of a row are to, and how numbers are written.
import { expect, test } from 'vitest';
import { rowsOf } from '../../../../../tools/bench/report/cells.ts';
import { numberText, ratioText } from '../../../../../tools/bench/report/numbers.ts';

test.each([
  { columns: ['none', 'fairlead-bpf', 'kube-proxy-iptables'], reference: 'kube-proxy-iptables' },
  { columns: ['none', 'fairlead-bpf', 'fairlead-iptables'], reference: 'none' },
  { columns: ['fairlead-bpf', 'fairlead-iptables'], reference: 'fairlead-iptables' },
  { columns: ['fairlead-bpf', 'fairlead-userspace'], reference: 'fairlead-userspace' },
  { columns: ['fairlead-bpf'], reference: undefined },
] as const)('ratios of $columns are to $reference', ({ columns, reference }) => {
  const samples = { start: Object.fromEntries(columns.map((name) => [name, [1, 2]])) };
  const [row] = rowsOf(samples, columns);
  expect(row?.reference).toBe(reference);
  const compared = row?.cells.filter((cell) => cell?.comparison).map((cell) => cell?.column);
  expect(compared).toEqual(reference ? columns.filter((name) => name !== reference) : []);
});

test('a column without a value in a row does not become its reference', () => {
  const columns = ['none', 'fairlead-bpf', 'kube-proxy-iptables'] as const;
  const samples = { start: { none: [1], 'fairlead-bpf': [2], 'kube-proxy-iptables': [null] } };
  expect(rowsOf(samples, columns)[0]?.reference).toBe('none');
  expect(rowsOf(samples, columns)[0]?.cells[2]).toBeUndefined();
});

test.each([
  [14_123, '14,100'],
  [999.9, '1,000'],
  [141.2, '141'],
  [14.12, '14.1'],
  [1.406, '1.41'],
  [0.0141, '0.0141'],
  [0, '0'],
])('%d is written %s', (value, text) => {
  expect(numberText(value)).toBe(text);
});

test.each([
  [1, '1.00'],
  [12.345, '12.35'],
  [0.0123, '0.0123'],
  [250, '250'],
])('the ratio %d is written %s', (value, text) => {
  expect(ratioText(value)).toBe(text);
});
