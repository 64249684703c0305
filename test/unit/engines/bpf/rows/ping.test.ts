// SPDX-License-Identifier: Apache-2.0
// The addresses that answer pings follow the plan.
import { beforeEach, expect, test } from 'vitest';
import { encodeU32 } from '../../../../../src/engines/bpf/layout/layout.ts';
import {
  decodePingKey,
  encodePingKey,
} from '../../../../../src/engines/bpf/layout/packet-layout.ts';
import type { RowTable } from '../../../../../src/engines/bpf/layout/rows.ts';
import { followPing } from '../../../../../src/engines/bpf/rows/ping.ts';
import type { Plan } from '../../../../../src/plan/types.ts';

let held: Set<string>;
let writes: string[];
let room: number;
/** So many deletions fail. */
let refusals: number;
const warned: object[] = [];
const log = { warn: (fields: object) => warned.push(fields) };
const map: RowTable = {
  name: 'fl_ping',
  readAll: () => [...held].map((address) => ({ key: encodePingKey(address), value: encodeU32(1) })),
  put: (keys) =>
    keys.flatMap((key, index) => {
      if (held.size >= room) return [{ index, code: 'E2BIG' }];
      held.add(decodePingKey(key));
      writes.push(`+${decodePingKey(key)}`);
      return [];
    }),
  delete: (keys) =>
    keys.flatMap((key, index) => {
      if (refusals-- > 0) return [{ index, code: 'EBUSY' }];
      writes.push(`-${decodePingKey(key)}`);
      held.delete(decodePingKey(key));
      return [];
    }),
};

const NODE = { localAddresses: ['192.0.2.11'] };

/** Services with these addresses on a node with the address 192.0.2.11; undefined: a NodePort. */
function plan(...services: readonly (readonly (string | undefined)[])[]): Plan {
  const entries = services.map((addresses, index) => [
    `default/${index}`,
    { ports: [{ frontends: addresses.map((address) => ({ address })) }] },
  ]);
  return { services: new Map(entries as never), node: NODE } as unknown as Plan;
}

beforeEach(() => {
  held = new Set();
  writes = [];
  warned.length = 0;
  room = 100;
  refusals = 0;
});

test('every address of a Service, but none of the node', () => {
  const services = plan(['10.96.0.10', undefined, '192.0.2.11'], ['fd00:96::1', '10.96.0.10']);
  followPing(map, log)(services, 'all');
  expect([...held]).toEqual(['10.96.0.10', 'fd00:96::1']);
});

test('what is there already, also from an earlier agent, is not written again', () => {
  held = new Set(['10.96.0.10', '10.96.0.99', 'fd00:96::99']);
  const follow = followPing(map, log);
  follow(plan(['10.96.0.10']), 'all');
  follow(plan(['10.96.0.10'], ['10.96.0.11']), 'all');
  follow(plan(['10.96.0.11']), 'all');
  expect(writes).toEqual(['-10.96.0.99', '-fd00:96::99', '+10.96.0.11', '-10.96.0.10']);
});

test('of many Services only those that have changed are looked at', () => {
  const follow = followPing(map, log);
  follow(plan(['10.96.0.10'], ['10.96.0.11']), 'all');
  writes = [];
  follow(plan(['10.96.0.20'], ['10.96.0.21']), ['default/0']);
  expect(writes).toEqual(['-10.96.0.10', '+10.96.0.20']);
});

test('an address stays as long as one Service has it', () => {
  const follow = followPing(map, log);
  follow(plan(['10.96.0.10', '10.96.0.10'], ['10.96.0.10']), 'all');
  follow(plan([], ['10.96.0.10']), ['default/0']);
  expect([...held]).toEqual(['10.96.0.10']);
  follow(plan([], []), ['default/1']);
  expect([...held]).toEqual([]);
});

test('a Service that is gone, and one that has not been there', () => {
  const follow = followPing(map, log);
  follow(plan(), 'all');
  follow(plan(['10.96.0.10']), ['default/0']);
  expect([...held]).toEqual(['10.96.0.10']);
  follow(plan(), ['default/0']);
  expect([...held]).toEqual([]);
});

test('an address that the node gets is no longer answered for, one that it loses is', () => {
  const follow = followPing(map, log);
  const before = plan(['10.96.0.10'], ['192.0.2.11']);
  follow(before, 'all');
  follow({ ...before, node: { ...before.node, localAddresses: ['10.96.0.10'] } }, []);
  expect([...held]).toEqual(['192.0.2.11']);
});

test('an address that does not fit is reported once, and retried with every change', () => {
  room = 1;
  const follow = followPing(map, log);
  follow(plan(['10.96.0.10', '10.96.0.11']), 'all');
  expect(warned).toEqual([{ address: '10.96.0.11', map: 'fl_ping', code: 'E2BIG' }]);
  follow(plan(['10.96.0.10', '10.96.0.11']), []);
  expect(warned).toHaveLength(1);
  room = 2;
  follow(plan(['10.96.0.10', '10.96.0.11']), []);
  expect(held.has('10.96.0.11')).toBe(true);
});

test('an address that another Service gives up in the same sync makes room', () => {
  room = 1;
  const follow = followPing(map, log);
  follow(plan([], ['10.96.0.11']), 'all');
  follow(plan(['10.96.0.10'], []), ['default/0', 'default/1']);
  expect([...held]).toEqual(['10.96.0.10']);
  expect(warned).toEqual([]);
});

test('an address that is not removed is reported, and removed by the next sync, whatever that is of', () => {
  const follow = followPing(map, log);
  follow(plan(['10.96.0.10'], []), 'all');
  refusals = 1;
  follow(plan([], ['10.96.0.11']), ['default/0', 'default/1']);
  expect(warned).toEqual([{ address: '10.96.0.10', map: 'fl_ping', code: 'EBUSY' }]);
  expect([...held]).toEqual(['10.96.0.10', '10.96.0.11']);
  follow(plan([], ['10.96.0.11']), []);
  expect([...held]).toEqual(['10.96.0.11']);
});

test('a change of the node and of Services at once', () => {
  const follow = followPing(map, log);
  const before = plan(['10.96.0.10'], ['10.96.0.11']);
  follow(before, 'all');
  const node = { ...before.node, localAddresses: ['10.96.0.11'] };
  follow({ ...plan(['10.96.0.12']), node }, ['default/0']);
  expect([...held]).toEqual(['10.96.0.12']);
  follow({ ...plan(['10.96.0.12'], ['10.96.0.11']), node: before.node }, []);
  expect([...held]).toEqual(['10.96.0.12', '10.96.0.11']);
});
