// SPDX-License-Identifier: Apache-2.0
// Which features packet programs are loaded with, for a plan.
import { expect, test } from 'vitest';
import {
  ALL_FEATURES,
  canLeaveOut,
  featureNames,
  featuresFor,
  NO_FEATURES,
  withMore,
} from '../../../../src/engines/bpf/features.ts';
import { backend, clusterIp, planOf, servicePort } from './plans.ts';

const IPV4 = servicePort('web', [clusterIp('10.96.0.10')], [backend('10.0.0.1')]);
const IPV6 = servicePort('six', [clusterIp('fd00::10')], [], { family: 'IPv6' });

test('of IPv4 alone nothing more', () => {
  expect(featuresFor(planOf(IPV4), 'all')).toEqual(NO_FEATURES);
});

test('IPv6 for a port of that family, also without endpoints', () => {
  const plan = planOf(IPV4, IPV6);
  const [four = '', six = ''] = ['default/web', 'default/six'];
  expect(featuresFor(plan, 'all')).toEqual({ ipv6: true, directReturn: false });
  expect(featuresFor(plan, [six])).toEqual({ ipv6: true, directReturn: false });
  expect(featuresFor(plan, [four, 'default/deleted']), 'what has not changed').toEqual(NO_FEATURES);
});

test('direct return for a rule that asks for it, and where others may send to this node', () => {
  const plan = planOf(IPV4);
  expect(featuresFor({ ...plan, wantsDirectReturn: true }, [])).toEqual(ALL_FEATURES);
  expect(featuresFor({ ...plan, node: { isPeer: true } }, [])).toEqual(ALL_FEATURES);
  expect(featuresFor({ ...plan, wantsDirectReturn: true }, [], false)).toEqual(NO_FEATURES);
});

test('what was loaded stays, and is the same object if nothing is new', () => {
  const ipv6 = { ipv6: true, directReturn: false };
  expect(withMore(ipv6, NO_FEATURES)).toBe(ipv6);
  expect(withMore(NO_FEATURES, ipv6)).toEqual(ipv6);
  expect(withMore(ALL_FEATURES, ipv6)).toBe(ALL_FEATURES);
});

test('names, as the status has them', () => {
  expect(featureNames(NO_FEATURES)).toEqual(['IPv4']);
  expect(featureNames(ALL_FEATURES)).toEqual(['IPv4', 'IPv6', 'direct return']);
});

test.each([
  ['5.12.0', false],
  ['6.1.0-37-amd64', false],
  ['6.7.12', false],
  ['6.8.0', true],
  ['6.12.43+deb13-amd64', true],
  ['7.0.0-rc1', true],
])('on Linux %s something is left out: %s', (release, isLeftOut) => {
  expect(canLeaveOut(release)).toBe(isLeftOut);
});
