// SPDX-License-Identifier: Apache-2.0
// Addresses on the loopback device: written down before they are added, so that none outlives a crash, and only own ones go.
import { expect, test } from 'vitest';
import { keepAddresses } from '../../../../src/engines/userspace/kernel/addresses.ts';
import { listenersOf } from '../../../../src/engines/userspace/listeners/listeners.ts';
import { backend, clusterIp, planOf, servicePort } from '../bpf/plans.ts';

const ADDRESS = '192.0.2.10';
const wanted = [
  ...listenersOf(planOf(servicePort('web', [clusterIp(ADDRESS)], [backend('10.1.1.1')])), {
    nodeAddresses: [],
    addsAddresses: true,
  }).values(),
];

/** @param has what the device has */
function device(has: Set<string>, isBroken = false) {
  return {
    add(address: string): boolean {
      if (has.has(address)) return false;
      has.add(address);
      return true;
    },
    remove(address: string): void {
      if (isBroken) throw new Error('EPERM');
      has.delete(address);
    },
  };
}

test('an address is written down before it is added, and not added if that fails', () => {
  const has = new Set<string>();
  const keeper = keepAddresses(new Set(), device(has));
  expect(keeper.add(wanted, () => false)).toMatchObject([{ service: 'default/web' }]);
  expect([has.size, keeper.own().size]).toEqual([0, 0]);
  const seen: string[][] = [];
  const record = () => {
    seen.push([...keeper.own()], [...has]);
    return true;
  };
  expect(keeper.add(wanted, record)).toEqual([]);
  expect(seen).toEqual([[ADDRESS], []]);
  expect([...has]).toEqual([ADDRESS]);
});

test('what an agent before a crash has written down is removed, what the device had is kept', () => {
  const has = new Set(['192.0.2.99', ADDRESS]);
  const keeper = keepAddresses(new Set(['192.0.2.99']), device(has));
  keeper.add(wanted, () => true);
  keeper.removeOthers([]);
  expect([...has]).toEqual([ADDRESS]);
});

test('an address that cannot be removed stays in the record', () => {
  const keeper = keepAddresses(new Set([ADDRESS]), device(new Set([ADDRESS]), true));
  keeper.removeOthers([]);
  expect([...keeper.own()]).toEqual([ADDRESS]);
});
