// SPDX-License-Identifier: Apache-2.0
// Where the agent listens for a plan, and which port stands for an address that the node lacks.
import { describe, expect, test } from 'vitest';
import { listenersOf } from '../../../../src/engines/userspace/listeners/listeners.ts';
import { portMapOf, preferredPorts } from '../../../../src/engines/userspace/listeners/port-map.ts';
import { backend, clusterIp, localNodePort, planOf, servicePort } from '../bpf/plans.ts';

const NODE = [
  { family: 'IPv4', address: '127.0.0.1' },
  { family: 'IPv4', address: '192.0.2.1' },
  { family: 'IPv6', address: '::1' },
  { family: 'IPv6', address: '2001:db8::1' },
] as const;

const placed = (addsAddresses: boolean) => ({ nodeAddresses: NODE, addsAddresses });

describe('listeners', () => {
  const port = servicePort(
    'web',
    [clusterIp('10.96.0.10'), clusterIp('192.0.2.1', 81), localNodePort(30080)],
    [backend('10.1.1.1')],
  );

  const atOf = (addsAddresses: boolean, plan = planOf(port)) =>
    Object.fromEntries(
      [...listenersOf(plan, placed(addsAddresses))].map(([key, { at }]) => [key, at]),
    );

  test('an address that the node lacks is mapped, one that it has is bound', () => {
    expect(atOf(false)).toEqual({
      'IPv4 10.96.0.10:80/TCP': 'mapped',
      'IPv4 192.0.2.1:81/TCP': ['192.0.2.1'],
      'IPv4 *:30080/TCP': ['127.0.0.1', '192.0.2.1'],
    });
  });

  test('with addresses on the loopback device it is bound, too', () => {
    expect(atOf(true)).toMatchObject({ 'IPv4 10.96.0.10:80/TCP': ['10.96.0.10'] });
  });

  test('NodePorts answer at the accepted addresses, and never at ::1', () => {
    const both = planOf(
      port,
      servicePort('six', [localNodePort(30081)], [], { family: 'IPv6', protocol: 'UDP' }),
    );
    const accepted = { IPv4: ['192.0.2.0/24'], IPv6: 'all' } as const;
    expect(atOf(false, { ...both, nodePortAddresses: accepted })).toMatchObject({
      'IPv4 *:30080/TCP': ['192.0.2.1'],
      'IPv6 *:30081/UDP': ['2001:db8::1'],
    });
  });

  test('a frontend that refuses everybody is closed, one that drops somebody is not', () => {
    const empty = servicePort('empty', [clusterIp('10.96.0.11'), localNodePort(30082)], []);
    const closed = [...listenersOf(planOf(empty), placed(false)).values()];
    expect(closed.map(({ key, isClosed }) => [key, isClosed])).toEqual([
      ['IPv4 10.96.0.11:80/TCP', true],
      ['IPv4 *:30082/TCP', false],
    ]);
  });

  test('SCTP has no listener', () => {
    const sctp = {
      ...servicePort('sctp', [clusterIp('10.96.0.12')], []),
      protocol: 'SCTP',
    } as const;
    expect([...listenersOf(planOf(sctp), placed(true))]).toEqual([]);
  });
});

describe('ports of the port map', () => {
  const KEY = 'IPv4 10.96.0.10:80/TCP';

  test('follow from the key, and one that another frontend has is left out', () => {
    const [first = 0, second] = preferredPorts(KEY, undefined, new Set());
    expect(preferredPorts(KEY, undefined, new Set())[0]).toBe(first);
    expect(preferredPorts(KEY, undefined, new Set([first]))[0]).toBe(second);
    expect(first).toBeGreaterThanOrEqual(20_000);
    expect(first).toBeLessThan(30_000);
  });

  test('the one that it had comes first', () => {
    expect(preferredPorts(KEY, 20_007, new Set()).slice(0, 1)).toEqual([20_007]);
  });

  test('what a file has is read entry by entry', () => {
    const read = portMapOf({ [KEY]: 20_007, low: 80, text: '20008', high: 30_000 });
    expect([...read]).toEqual([[KEY, 20_007]]);
    expect([...portMapOf('text')]).toEqual([]);
    expect([...portMapOf(null)]).toEqual([]);
  });
});
