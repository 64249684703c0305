// SPDX-License-Identifier: Apache-2.0
// A known reason holds for what it says, and for no defect that looks like it.
import { expect, test } from 'vitest';
import { KNOWN, type Seen } from '../../../src/compare/known.ts';
import type { Plan, ServicePlan, ServicePortPlan } from '../../../src/plan/types.ts';
import { comparedWith, planOf, recordedText, sideOf } from './recorded.ts';

const seen = (because: string): Seen =>
  ({
    plan: { verdict: 'reject', backends: [], because: [{ text: because, isForeign: false }] },
    rules: { verdict: 'none', backends: [], because: [] },
  }) as unknown as Seen;

test('a Service without endpoints that rules do not refuse is no unknown port', () => {
  const one = KNOWN.find(({ name }) => name === 'unknown-port-passes');
  expect(one?.holds(seen('Service default/web has not this port'))).toBe(true);
  expect(one?.holds(seen('Service default/web: ClusterIP, client pod'))).toBe(false);
});

const known = (name: string) => KNOWN.find((one) => one.name === name)!;

const askedTwice = (verdict: string, device?: string, backends: readonly string[] = []) => {
  const claim = { isContested: true, endpoints: new Set(['10.1.1.5:8080', '10.1.2.5:8080']) };
  const rules = { verdict, backends: backends.map((text) => ({ text })) };
  return { ...seen(''), claim, rules, clients: [{ device }] } as unknown as Seen;
};

test('an address for which two Services ask, and that nobody answers, is no conflict', () => {
  const { holds } = known('conflict-undefined');
  expect(holds(askedTwice('forward', 'eth0'))).toBe(true);
  expect(holds(askedTwice('none', 'eth0'))).toBe(false);
  // A Service without endpoints, for what the node itself sends.
  expect(holds(askedTwice('none'))).toBe(true);
});

test('an address for which two Services ask, and that an endpoint of neither answers, is a defect', () => {
  const { holds } = known('conflict-undefined');
  expect(holds(askedTwice('forward', 'eth0', ['10.1.2.5:8080']))).toBe(true);
  expect(holds(askedTwice('mixed', 'eth0', ['10.1.2.5:8080', 'drop']))).toBe(true);
  expect(holds(askedTwice('forward', 'eth0', ['10.1.2.5:8080', '10.1.9.9:8080']))).toBe(false);
});

test.each([
  ['spec.loadBalancerSourceRanges[0]', 'verdict', true],
  ['spec.loadBalancerSourceRanges[0]', 'backends', false],
  ['spec.sessionAffinityConfig.clientIP.timeoutSeconds', 'affinity', true],
  ['spec.sessionAffinityConfig.clientIP.timeoutSeconds', 'shares', false],
  ['spec.ports[0].nodePort', 'backends', true],
])('a rejected %s explains a difference of %s: %s', (field, part, isExplained) => {
  const claim = { isContested: false, rejected: [field] };
  const found = { ...seen(''), claim, part } as unknown as Seen;
  expect(known('rejected-field').holds(found)).toBe(isExplained);
});

test('a rejected external address explains nothing at the ClusterIP', () => {
  const claim = { isContested: false, rejected: ['spec.externalIPs[0]'] };
  const at = (text: string) => ({ ...seen(text), claim, part: 'backends' }) as unknown as Seen;
  expect(known('rejected-field').holds(at('Service default/web: ClusterIP'))).toBe(false);
  expect(known('rejected-field').holds(at('Service default/web: external IP'))).toBe(true);
});

test('a process of the node that gets what is for a Service is known, and the Service does not differ', () => {
  const given = planOf('affinity');
  const [[key, service]] = [...given.services] as [[string, ServicePlan]];
  const [port] = service.ports;
  const { address = '', port: number } = port!.frontends[0]!;
  const ports = service.ports.map(
    (one): ServicePortPlan =>
      one === port
        ? {
            ...{ ...one, frontends: one.frontends.slice(1), refusesOtherPortsOf: undefined },
            onNode: [{ kind: 'ClusterIP', address, port: number, isListenedTo: true }],
          }
        : one,
  );
  const services = new Map(given.services).set(key, { ...service, ports });
  const plan: Plan = { ...given, services, onNode: new Set([key]) };
  const rules = sideOf('iptables', recordedText('affinity', 'iptables'), plan);
  const found = comparedWith(plan, rules).differences.filter(
    ({ destination }) => destination.address === address && destination.port === number,
  );
  expect(found.map(({ reason }) => reason)).toContain('node-process');
  expect(found.filter(({ reason }) => reason === undefined)).toEqual([]);
});
