// SPDX-License-Identifier: Apache-2.0
// fl_node follows the node's addresses.
import { expect, test } from 'vitest';
import { followNode } from '../../../../src/engines/bpf/node-map.ts';
import type { Plan } from '../../../../src/plan/types.ts';

const node = (IPv4?: string, IPv6?: string): Plan['node'] =>
  ({ addresses: { IPv4, IPv6 } }) as unknown as Plan['node'];

test('addresses are written when they change; one that is gone is all zero', () => {
  const written: string[] = [];
  const put = (_: Uint8Array, value: Uint8Array): void => {
    written.push(Buffer.from(value).toString('hex'));
  };
  const follow = followNode({ put });
  follow(node('192.0.2.1', '2001:db8::1'));
  follow(node('192.0.2.1', '2001:db8::1'));
  follow(node(undefined, '2001:db8::1'));
  expect(written).toEqual([
    'c0000201' + '20010db8000000000000000000000001',
    '00000000' + '20010db8000000000000000000000001',
  ]);
});
