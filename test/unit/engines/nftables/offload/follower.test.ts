// SPDX-License-Identifier: Apache-2.0
// The flowtable follows devices, and what fails is told once and retried.
import { expect, test } from 'vitest';
import { followOffload } from '../../../../../src/engines/nftables/offload/follower.ts';
import type { Network } from '../../../../../src/sys/netlink/network.ts';
import { FakeClock } from '../../../source/apiserver/support/fake-clock.ts';
import { devices } from './devices.ts';

const PERIOD_MS = 5_000;
const FULL = /^add table inet fairlead-offload\ndelete table/;

function following(first: Network) {
  let network = first;
  let reason: string | undefined;
  let isThere = true;
  const scripts: string[] = [];
  const told: string[] = [];
  const listeners = new Set<() => void>();
  const clock = new FakeClock();
  const offload = followOffload({
    network: {
      current: () => network,
      listen: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    },
    patterns: ['auto'],
    write: async (script) => {
      scripts.push(script);
      return reason;
    },
    isThere: () => isThere,
    periodMs: PERIOD_MS,
    clock,
    log: {
      info: () => undefined,
      warn: (fields: unknown) => void told.push(JSON.stringify(fields)),
    } as never,
  });
  /** What is written within this time. */
  const after = async (ms: number): Promise<readonly string[]> => {
    clock.advance(ms);
    await new Promise(setImmediate);
    return scripts.splice(0);
  };
  return {
    offload,
    told,
    after,
    fail: (why: string | undefined) => {
      reason = why;
    },
    lose: () => {
      isThere = false;
    },
    change: (next: Network) => {
      network = next;
      for (const listener of listeners) listener();
    },
    listeners,
  };
}

test('the first script replaces what an earlier agent has left; then devices are added', async () => {
  const { after, change, offload } = following(devices('eth0'));
  expect(await after(0)).toEqual([expect.stringMatching(FULL)]);
  change(devices('eth0', 'v1', 'v2'));
  expect(await after(20)).toEqual([
    'add flowtable inet fairlead-offload services { hook ingress priority 0; devices = { "v1", "v2" }; }\n',
  ]);
  expect(await after(1_000)).toEqual([]);
  expect(offload.transactions()).toBe(2);
});

test('a device that goes is taken out by the kernel, and one that comes back is another', async () => {
  const { after, change } = following(devices('eth0', 'v1'));
  await after(0);
  change(devices('eth0'));
  expect(await after(20)).toEqual([]);
  change({ ...devices('eth0', 'gone', 'v1'), links: without(devices('eth0', 'gone', 'v1'), 2) });
  expect(await after(20)).toEqual([expect.stringContaining('devices = { "v1" }')]);
});

test('a device that becomes the port of a bridge is taken out', async () => {
  const { after, change } = following(devices('eth0', 'v1'));
  await after(0);
  change(devices('eth0', { name: 'v1', master: 1 }));
  const [script = ''] = await after(20);
  expect(script).toMatch(FULL);
  expect(script).not.toContain('v1');
});

test('without any device there is no table, and the first one makes it', async () => {
  const { after, change } = following(devices());
  const [script = ''] = await after(0);
  expect(script).toMatch(FULL);
  expect(script).not.toContain('flowtable');
  expect(await after(1_000)).toEqual([]);
  change(devices('eth0'));
  expect(await after(20)).toEqual([expect.stringContaining('add rule')]);
});

test('a refusal is told once and retried with the devices of then', async () => {
  const { after, fail, told, change, offload } = following(devices('eth0', 'v1'));
  fail('no such device');
  expect(await after(0)).toHaveLength(1);
  expect(await after(1_000)).toHaveLength(1);
  expect(told).toHaveLength(1);
  fail(undefined);
  change(devices('eth0'));
  const [script = ''] = await after(20);
  expect(script).not.toContain('v1');
  expect(offload.transactions()).toBe(1);
});

test('what somebody removes is written again, and nothing after close', async () => {
  const { after, lose, offload, listeners } = following(devices('eth0'));
  await after(0);
  expect(await after(PERIOD_MS)).toEqual([]);
  lose();
  expect(await after(PERIOD_MS)).toEqual([expect.stringMatching(FULL)]);
  offload.close();
  expect(await after(10 * PERIOD_MS)).toEqual([]);
  expect(listeners.size).toBe(0);
});

const without = ({ links }: Network, ifindex: number): Network['links'] =>
  new Map([...links].filter(([one]) => one !== ifindex));
