// SPDX-License-Identifier: Apache-2.0
// Two modes of kube-proxy with the same objects: they differ for known reasons alone, and a defect of one of them has none.
import { expect, test } from 'vitest';
import { compare } from '../../../src/compare/compare.ts';
import { reasonsOf } from '../../../src/compare/known.ts';
import { planSide } from '../../../src/compare/sides/plan-side.ts';
import { familyOf } from '../../../src/lib/ip.ts';
import { planOf, type Recorded, recordedText, sideOf, unexplained } from './recorded.ts';

const NAMES = ['ranges', 'affinity'] as const;

function compared(name: Recorded, nft: string, isMeasured = true) {
  const plan = planOf(name);
  const own = plan.node.localAddresses.filter((address) => familyOf(address) === 'IPv4');
  const node = { own };
  const sides = [
    sideOf('iptables', recordedText(name, 'iptables'), plan),
    sideOf('nftables', nft, plan),
  ] as const;
  const plain = isMeasured ? planSide(plan, 'IPv4', node) : undefined;
  const judge = { reasonOf: reasonsOf({ sides, node, plain }), isKept: () => true };
  return compare({ family: 'IPv4', node, sides }, judge);
}

test.each(NAMES)('%s: every difference of the two modes has a known reason', (name) => {
  const found = compared(name, recordedText(name, 'nftables'));
  expect(unexplained(found)).toEqual([]);
  expect(found.reasons.size).toBeGreaterThan(0);
});

test.each(NAMES)('%s: without the objects none has', (name) => {
  const found = compared(name, recordedText(name, 'nftables'), false);
  expect(found.reasons.size).toBe(0);
  expect(unexplained(found)).not.toEqual([]);
});

test.each(NAMES)('%s: an endpoint that is another one in one mode has none', (name) => {
  const text = recordedText(name, 'nftables');
  const planted = text.replace(
    /(dnat .*?)10\.1\.\d\.5(?=:| \. )/,
    (_, before) => `${before}10.9.9.9`,
  );
  expect(planted).not.toBe(text);
  expect(unexplained(compared(name, planted))).toContainEqual(
    expect.stringContaining('10.96.0.10:80/TCP: backends'),
  );
});
