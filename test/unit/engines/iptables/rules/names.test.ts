// SPDX-License-Identifier: Apache-2.0
import { expect, it } from 'vitest';
import {
  endpointChain,
  type NamedPort,
  serviceChains,
  servicePortName,
} from '../../../../../src/engines/iptables/rules/names.ts';

const port = (number: number): NamedPort => ({
  namespace: `ns${number}`,
  name: `svc${number}`,
  portName: 'p80',
  protocol: 'TCP',
});

// Names that kube-proxy 1.36 gave the same ports (the expectations of its proxier_test.go).
it('are those that kube-proxy computes', () => {
  expect(serviceChains(port(1)).cluster).toBe('KUBE-SVC-XPGD46QRK7WJZT7O');
  expect(serviceChains(port(2)).external).toBe('KUBE-EXT-GNZBNJ2PO5MGZ6GT');
  expect(serviceChains(port(5)).firewall).toBe('KUBE-FW-NUKIZ6OKUXPJNT4C');
  expect(endpointChain(port(1), { address: '10.180.0.1', port: 80 })).toBe(
    'KUBE-SEP-SXIVWICOYRO3J4NJ',
  );
});

// kubectl get svc kubernetes, on any node.
it('of the API server are those that everyone knows', () => {
  const kubernetes: NamedPort = {
    namespace: 'default',
    name: 'kubernetes',
    portName: 'https',
    protocol: 'TCP',
  };
  expect(serviceChains(kubernetes).cluster).toBe('KUBE-SVC-NPX46M4PTMTKRN6Y');
});

it('tell protocols apart, and fit the 28 characters of a chain', () => {
  const dns: NamedPort = { namespace: 'a', name: 'b', portName: '', protocol: 'UDP' };
  expect(servicePortName(dns)).toBe('a/b');
  expect(serviceChains({ ...dns, protocol: 'TCP' })).not.toEqual(serviceChains(dns));
  for (const name of Object.values(serviceChains(dns))) expect(name.length).toBeLessThan(29);
  expect(endpointChain(dns, { address: 'fd00::1', port: 53 })).toHaveLength(25);
});
