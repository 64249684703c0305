// SPDX-License-Identifier: Apache-2.0
// Programs follow the devices: in which order things are written, what a failure affects, what an earlier agent left.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  createDeviceFollower,
  type DeviceFollower,
} from '../../../../../src/engines/bpf/devices/device-follower.ts';
import type {
  Attachment,
  DeviceLinks,
} from '../../../../../src/engines/bpf/devices/device-links.ts';
import type { RefusedRow } from '../../../../../src/engines/tracked-table.ts';
import type { Network } from '../../../../../src/sys/netlink/network.ts';
import { type LinkSpec, network } from './networks.ts';

/** What was done, in order: `put 2`, `egress 2`, `rename 2 eth0`. */
let done: string[];
/** Calls that fail, by the same text. */
let failing: Map<string, string>;
let warned: string[];
let retries: { action: () => void; delayMs: number }[];
let attached: Map<string, string>;
let tableKeys: Set<number>;
let adopted: Attachment[];
let links: LinkSpec[];
let changed: () => void;
let current: Network;
let loadL3: () => Promise<void> | undefined;
let nowMs: number;

beforeEach(() => {
  done = [];
  failing = new Map();
  warned = [];
  retries = [];
  attached = new Map();
  tableKeys = new Set();
  adopted = [];
  links = [{ ifindex: 2, name: 'eth0' }];
  loadL3 = () => undefined;
  nowMs = 0;
});

function act(text: string): void {
  const failure = failing.get(text);
  if (failure !== undefined) throw Object.assign(new Error(failure), { code: failure });
  done.push(text);
}

/** Does all that it can. */
const each = <T>(
  all: readonly T[],
  actOf: (one: T) => readonly [text: string, write: () => void],
): readonly RefusedRow[] =>
  all.flatMap((one, index) => {
    const [text, write] = actOf(one);
    const code = failing.get(text);
    if (code !== undefined) return [{ index, code }];
    act(text);
    write();
    return [];
  });

const deviceLinks: DeviceLinks = {
  adopt: () => {
    for (const { ifindex, direction } of adopted) attached.set(`${direction} ${ifindex}`, '');
    return adopted;
  },
  load: (isL3) => (isL3 ? loadL3() : undefined),
  attach({ ifindex, name, isL3 }, direction) {
    act(`${direction} ${ifindex}`);
    attached.set(`${direction} ${ifindex}`, `${name}${isL3 ? ' l3' : ''}`);
  },
  detach(ifindex, direction) {
    act(`no ${direction} ${ifindex}`);
    attached.delete(`${direction} ${ifindex}`);
  },
  rename: (names) => act(`rename ${[...names].map(([ifindex, name]) => `${ifindex} ${name}`)}`),
  isAttached: (ifindex, direction) => attached.has(`${direction} ${ifindex}`),
  order: (ifindex, direction) => (attached.has(`${direction} ${ifindex}`) ? ['fl'] : []),
};

function start(patterns: readonly string[] = []): DeviceFollower {
  current = network(links);
  return createDeviceFollower({
    network: {
      current: () => current,
      listen: (listener) => {
        changed = listener;
        return () => {
          changed = () => undefined;
        };
      },
    },
    policy: { patterns, podDevices: undefined },
    links: deviceLinks,
    table: {
      read: () => [...tableKeys].map((ifindex) => [ifindex, ''] as const),
      put: (rows) => each(rows, ([ifindex]) => [`put ${ifindex}`, () => tableKeys.add(ifindex)]),
      delete: (gone) => each(gone, (one) => [`delete ${one}`, () => tableKeys.delete(one)]),
      refusal: (code) => code,
    },
    clock: {
      nowMs: () => 0,
      monotonicMs: () => nowMs,
      random: () => 1,
      after: (delayMs, action) => {
        const retry = { action, delayMs };
        retries.push(retry);
        return () => {
          retries = retries.filter((one) => one !== retry);
        };
      },
    },
    log: {
      info: () => undefined,
      warn: (fields: { device: string; reason: string }) =>
        void warned.push(`${fields.device}: ${fields.reason}`),
    } as never,
  });
}

/** Applies a change and returns what was done for it. */
function change(next: readonly LinkSpec[]): string[] {
  done = [];
  current = network(next);
  changed();
  return done;
}

const state = (follower: DeviceFollower): Record<string, string> =>
  Object.fromEntries(
    follower
      .devices()
      .map(({ name, isAttached, isFailed, reason }) => [
        name,
        `${isAttached ? 'attached' : 'not attached'}${isFailed ? ' (failed)' : ''}: ${reason}`,
      ]),
  );

describe('attaching', () => {
  test('the entry comes first, then egress on all devices, then ingress', () => {
    links = [
      { ifindex: 3, name: 'eth1' },
      { ifindex: 2, name: 'eth0' },
      { ifindex: 1, name: 'lo', isLoopback: true },
    ];
    const follower = start();
    expect(done).toEqual(['put 2', 'put 3', 'egress 2', 'egress 3', 'ingress 2', 'ingress 3']);
    expect(state(follower)).toEqual({
      eth0: 'attached: it is up',
      eth1: 'attached: it is up',
      lo: 'not attached: the loopback device has only traffic of the node itself',
    });
    expect(follower.devices()[0]).toMatchObject({ ingress: ['fl'], egress: ['fl'] });
  });

  test('a device that appears is attached, one that goes is forgotten', () => {
    start();
    const veth: LinkSpec = { ifindex: 9, name: 'veth0', kind: 'veth', isPeerElsewhere: true };
    expect(change([...links, veth])).toEqual(['put 9', 'egress 9', 'ingress 9']);
    expect(change(links)).toEqual(['no ingress 9', 'no egress 9', 'delete 9']);
    expect([...tableKeys]).toEqual([2]);
  });

  test('devices without Ethernet headers get the programs for them', () => {
    links = [{ ifindex: 4, name: 'tun0', kind: 'tun', type: 65_534 }];
    start();
    expect(attached.get('ingress 4')).toBe('tun0 l3');
  });

  test('nothing is done if nothing concerns it', () => {
    start();
    expect(change([...links, { ifindex: 5, name: 'dummy0', kind: 'dummy' }])).toEqual([]);
  });
});

describe('programs that are loaded when a device needs them', () => {
  const tun: LinkSpec = { ifindex: 4, name: 'tun0', kind: 'tun', type: 65_534 };
  let loads: number;
  let end: (refusal?: Error) => Promise<void>;

  beforeEach(() => {
    loads = 0;
    loadL3 = () => {
      loads += 1;
      return new Promise<void>((resolve, reject) => {
        end = async (refusal) => {
          if (refusal === undefined) {
            loadL3 = () => undefined;
            resolve();
          } else reject(refusal);
          await nextTurn();
        };
      });
    };
  });

  test('none without such a device', () => {
    start();
    change([...links, { ifindex: 5, name: 'eth1' }]);
    expect(loads).toBe(0);
  });

  test('the device waits for them, others do not, and they are loaded once', async () => {
    const follower = start();
    const tun1 = { ...tun, ifindex: 5, name: 'tun1' };
    expect(change([...links, tun])).toEqual(['put 4']);
    expect(change([...links, tun, tun1, { ifindex: 6, name: 'eth1' }])).toEqual([
      'put 6',
      'put 5',
      'egress 6',
      'ingress 6',
    ]);
    expect(state(follower)['tun0']).toBe('not attached: it is up');
    done = [];
    await end();
    expect(done).toEqual(['egress 4', 'egress 5', 'ingress 4', 'ingress 5']);
    expect(attached.get('ingress 4')).toBe('tun0 l3');
    expect([loads, warned, retries]).toEqual([1, [], []]);
  });

  test('a device that goes meanwhile gets none', async () => {
    start();
    change([...links, tun]);
    expect(change(links)).toEqual(['delete 4']);
    done = [];
    await end();
    expect(done).toEqual([]);
  });

  test('refused, the device fails alone, and they are not asked for again at once', async () => {
    const follower = start();
    change([...links, tun]);
    await end(new Error('the kernel refused a program'));
    expect(state(follower)).toEqual({
      eth0: 'attached: it is up',
      tun0: 'not attached (failed): the kernel refused a program',
    });
    expect(warned).toEqual(['tun0: the kernel refused a program']);
    nowMs = 29_999;
    retries[0]?.action();
    expect([loads, warned.length]).toEqual([1, 1]);
    nowMs = 30_000;
    retries[0]?.action();
    expect(loads).toBe(2);
    await end();
    expect(state(follower)['tun0']).toBe('attached: it is up');
    expect(retries).toEqual([]);
  });

  test('after the end nothing is attached', async () => {
    const follower = start();
    change([...links, tun]);
    follower.close();
    done = [];
    await end();
    expect(done).toEqual([]);
  });
});

describe('a device that changes', () => {
  test('is renamed: it keeps its programs', () => {
    start();
    expect(change([{ ifindex: 2, name: 'uplink' }])).toEqual(['rename 2 uplink']);
    expect(change([{ ifindex: 2, name: 'uplink' }])).toEqual([]);
  });

  test('is renamed to a name that --devices does not have: it loses them', () => {
    start(['eth*']);
    expect(change([{ ifindex: 2, name: 'uplink' }])).toEqual([
      'no ingress 2',
      'no egress 2',
      'delete 2',
    ]);
  });

  test('gets an address: only its entry is written', () => {
    start();
    expect(change([{ ifindex: 2, name: 'eth0', addresses: ['192.0.2.1/24'] }])).toEqual(['put 2']);
  });

  test('moves under a bond and back', () => {
    const bond: LinkSpec = { ifindex: 8, name: 'bond0', kind: 'bond' };
    start();
    change([...links, bond]);
    expect(change([{ ifindex: 2, name: 'eth0', master: 8 }, bond])).toEqual([
      'no ingress 2',
      'no egress 2',
      'delete 2',
    ]);
    expect(change([...links, bond])).toEqual(['put 2', 'egress 2', 'ingress 2']);
  });

  test('goes down and up', () => {
    start();
    expect(change([{ ifindex: 2, name: 'eth0', isUp: false }])).toHaveLength(3);
    expect(change(links)).toHaveLength(3);
  });

  test('is replaced by another with its name', () => {
    start();
    expect(change([{ ifindex: 7, name: 'eth0' }])).toEqual([
      'no ingress 2',
      'no egress 2',
      'delete 2',
      'put 7',
      'egress 7',
      'ingress 7',
    ]);
  });

  test('gets another link header: it gets other programs, and its entry stays', () => {
    start();
    expect(change([{ ifindex: 2, name: 'eth0', type: 65_534 }])).toEqual([
      'no ingress 2',
      'no egress 2',
      'put 2',
      'egress 2',
      'ingress 2',
    ]);
  });
});

describe('a failure', () => {
  const two: readonly LinkSpec[] = [
    { ifindex: 2, name: 'eth0' },
    { ifindex: 3, name: 'eth1' },
  ];

  test('on one device affects no other, is told once, and is retried', () => {
    links = [...two];
    failing.set('ingress 2', 'EBUSY');
    const follower = start();
    expect(done).toEqual(['put 2', 'put 3', 'egress 2', 'egress 3', 'ingress 3']);
    expect(state(follower)).toEqual({
      eth0: 'not attached (failed): EBUSY',
      eth1: 'attached: it is up',
    });
    expect(retries).toHaveLength(1);
    retries[0]?.action();
    expect(warned).toEqual(['eth0: EBUSY']);
    expect(retries).toMatchObject([{ delayMs: 200 }]);
    failing.clear();
    done = [];
    retries[0]?.action();
    expect(done).toEqual(['ingress 2']);
    expect(retries).toEqual([]);
    expect(state(follower)['eth0']).toBe('attached: it is up');
  });

  test('of the entry leaves the device without programs', () => {
    failing.set('put 2', 'the map fl_device is full');
    const follower = start();
    expect(done).toEqual([]);
    expect(state(follower)['eth0']).toBe('not attached (failed): the map fl_device is full');
  });

  test('of a device that has gone meanwhile is not told', () => {
    failing.set('egress 2', 'ENODEV');
    start();
    expect(warned).toEqual([]);
  });

  test('to detach is retried', () => {
    start();
    failing.set('no egress 2', 'EPERM');
    expect(change([])).toEqual(['no ingress 2']);
    failing.clear();
    done = [];
    retries[0]?.action();
    expect(done).toEqual(['no egress 2', 'delete 2']);
  });
});

describe('after a restart', () => {
  const both = (ifindex: number, name: string, isL3 = false): Attachment[] => [
    { ifindex, name, isL3, direction: 'ingress' },
    { ifindex, name, isL3, direction: 'egress' },
  ];

  test('what is attached is kept; only the entry is written', () => {
    adopted = both(2, 'eth0');
    start();
    expect(done).toEqual(['put 2']);
  });

  test('a device that was renamed meanwhile keeps its programs', () => {
    adopted = both(2, 'old');
    start();
    expect(done).toEqual(['rename 2 eth0', 'put 2']);
  });

  test('what is half attached is completed', () => {
    adopted = both(2, 'eth0').slice(1);
    start();
    expect(done).toEqual(['put 2', 'ingress 2']);
  });

  test('programs of a device that is no longer chosen are detached', () => {
    adopted = both(2, 'eth0');
    tableKeys = new Set([2]);
    start(['!eth0']);
    expect(done).toEqual(['no ingress 2', 'no egress 2', 'delete 2']);
  });

  test('entries of devices that have gone are deleted', () => {
    tableKeys = new Set([2, 55]);
    start();
    expect(done).toContain('delete 55');
    expect(tableKeys).toEqual(new Set([2]));
  });

  test('the entry of a device whose programs cannot be detached stays', () => {
    adopted = both(2, 'eth0');
    tableKeys = new Set([2]);
    failing.set('no ingress 2', 'EPERM');
    start(['!eth0']);
    expect([...tableKeys]).toEqual([2]);
    failing.clear();
    retries[0]?.action();
    expect([...tableKeys]).toEqual([]);
  });

  test('an entry that cannot be deleted is retried', () => {
    tableKeys = new Set([2, 55]);
    failing.set('delete 55', 'EPERM');
    start();
    expect(warned).toEqual(['55: EPERM']);
    failing.clear();
    retries[0]?.action();
    expect([...tableKeys]).toEqual([2]);
  });
});

test('what somebody else detached is attached again by a repair', () => {
  const follower = start();
  expect(follower.repair()).toEqual([]);
  attached.delete('ingress 2');
  done = [];
  expect(follower.repair()).toEqual(['eth0']);
  expect(done).toEqual(['no ingress 2', 'ingress 2']);
});

test('after close nothing is followed or retried', () => {
  failing.set('ingress 2', 'EBUSY');
  const follower = start();
  follower.close();
  follower.close();
  expect(retries).toEqual([]);
  expect(change([{ ifindex: 7, name: 'eth7' }])).toEqual([]);
});
