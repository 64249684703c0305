// SPDX-License-Identifier: Apache-2.0
// The addresses that answer pings follow the plan.
import { beforeEach, expect, test } from 'vitest';
import {
  decodePingKey,
  encodePingKey,
} from '../../../../../src/dataplane/bpf/maps/packet-layout.ts';
import { followPing } from '../../../../../src/dataplane/bpf/packet/ping.ts';
import type { Plan } from '../../../../../src/plan/types.ts';
import type { BpfMap } from '../../../../../src/sys/native.ts';

let held: Set<string>;
let writes: string[];
let room: number;
const warned: object[] = [];
const log = { warn: (fields: object) => warned.push(fields) };
const map = {
  info: { name: 'fl_ping', keySize: 16 },
  readAll: () => {
    const keys = [...held].map(encodePingKey);
    return { keys: Buffer.concat(keys), values: new Uint8Array(), count: keys.length };
  },
  put: (key: Uint8Array) => {
    if (held.size >= room) throw Object.assign(new Error('full'), { code: 'E2BIG' });
    held.add(decodePingKey(key));
    writes.push(`+${decodePingKey(key)}`);
  },
  delete: (key: Uint8Array) => {
    writes.push(`-${decodePingKey(key)}`);
    return held.delete(decodePingKey(key));
  },
} as unknown as BpfMap;

/** Services with these addresses on a node with the address 192.0.2.11; undefined: a NodePort. */
function plan(...services: readonly (readonly (string | undefined)[])[]): Plan {
  const entries = services.map((addresses, index) => [
    `default/${index}`,
    { ports: [{ frontends: addresses.map((address) => ({ address })) }] },
  ]);
  return {
    services: new Map(entries as never),
    node: { localAddresses: ['192.0.2.11'] },
  } as unknown as Plan;
}

beforeEach(() => {
  held = new Set();
  writes = [];
  warned.length = 0;
  room = 100;
});

test('every address of a Service, but none of the node', () => {
  followPing(map, log)(plan(['10.96.0.10', undefined, '192.0.2.11'], ['fd00:96::1', '10.96.0.10']));
  expect([...held]).toEqual(['10.96.0.10', 'fd00:96::1']);
});

test('what is there already, also from an earlier agent, is not written again', () => {
  held = new Set(['10.96.0.10', '10.96.0.99', 'fd00:96::99']);
  const follow = followPing(map, log);
  follow(plan(['10.96.0.10']));
  follow(plan(['10.96.0.10'], ['10.96.0.11']));
  follow(plan(['10.96.0.11']));
  expect(writes).toEqual(['-10.96.0.99', '-fd00:96::99', '+10.96.0.11', '-10.96.0.10']);
});

test('an address that does not fit is reported, and retried with the next change', () => {
  room = 1;
  const follow = followPing(map, log);
  follow(plan(['10.96.0.10', '10.96.0.11']));
  expect(warned).toEqual([{ address: '10.96.0.11', map: 'fl_ping', code: 'E2BIG' }]);
  room = 2;
  follow(plan(['10.96.0.10', '10.96.0.11']));
  expect(held.has('10.96.0.11')).toBe(true);
});
