// SPDX-License-Identifier: Apache-2.0
// XDP follows the devices: what is tried, trusted, watched and taken off, and when the next trial begins.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import type { XdpFamily } from '../../../../../src/engines/bpf/xdp/links.ts';
import type { XdpTraffic } from '../../../../../src/engines/bpf/xdp/losses.ts';
import {
  createXdpFollower,
  type XdpCandidate,
  type XdpFollower,
} from '../../../../../src/engines/bpf/xdp/xdp-follower.ts';

/** What was done, in order: `begin 2`, `trust 2`, `targets 2`. */
let done: string[];
let logged: string[];
let failing: Map<string, string>;
let candidates: XdpCandidate[];
/** How often. */
let listed: number;
let adopted: { ifindex: number; name: string }[];
let taken: number;
let received: number;
let traffic: XdpTraffic;
let isThere: boolean;
let connected: readonly XdpFamily[];
let load: () => Promise<void> | undefined;
let nowMs: number;
let timers: { atMs: number; action: () => void }[];

const eth0: XdpCandidate = {
  ...{ ifindex: 2, name: 'eth0', mac: '02:00:00:00:00:02', hasTc: true },
  ...{ use: 'both', reason: '--xdp has auto' },
};

beforeEach(() => {
  done = [];
  logged = [];
  failing = new Map();
  candidates = [eth0];
  listed = 0;
  adopted = [];
  taken = 8;
  received = 1;
  traffic = { sent: 0, lost: 0 };
  isThere = true;
  connected = [];
  load = () => undefined;
  nowMs = 0;
  timers = [];
});

function act(text: string): void {
  const failure = failing.get(text);
  if (failure !== undefined) throw Object.assign(new Error(failure), { code: failure });
  done.push(text);
}

function create(): XdpFollower {
  const follower: XdpFollower = createXdpFollower({
    candidates: () => {
      listed += 1;
      return candidates;
    },
    kernel: {
      adopt: () => adopted,
      load: () => load(),
      begin({ ifindex, use }) {
        act(`begin ${ifindex}${use === 'send' ? ' send' : ''}`);
        return {
          send: () => ({ taken, of: 8 }),
          received: () => received,
          trust: () => act(`trust ${ifindex}`),
          end: () => act(`end ${ifindex}`),
        };
      },
      detach: (ifindex) => act(`detach ${ifindex}`),
      rename: (ifindex, name) => act(`rename ${ifindex} ${name}`),
      isAttached: () => isThere,
      setFamilies: (families) => {
        connected = families;
      },
      traffic: () => traffic,
    },
    onTargets: () => done.push(`targets ${[2, 3].filter((one) => follower.isTarget(one))}`),
    clock: {
      nowMs: () => 0,
      monotonicMs: () => nowMs,
      random: () => 1,
      after(delayMs, action) {
        const timer = { atMs: nowMs + delayMs, action };
        timers.push(timer);
        return () => {
          timers = timers.filter((one) => one !== timer);
        };
      },
    },
    log: {
      info: (_: object, text: string) => void logged.push(text),
      warn: (fields: { reason: string; retrySeconds?: number }) =>
        void logged.push(`${fields.reason} (${fields.retrySeconds})`),
    } as never,
  });
  follower.refresh();
  return follower;
}

function started(): XdpFollower {
  const follower = create();
  follower.begin();
  return follower;
}

/** Lets time pass. */
function wait(seconds: number): void {
  const endMs = nowMs + seconds * 1000;
  for (;;) {
    const next = timers.sort((a, b) => a.atMs - b.atMs)[0];
    if (next === undefined || next.atMs > endMs) break;
    timers.shift();
    nowMs = next.atMs;
    next.action();
  }
  nowMs = endMs;
}

const change = (...next: readonly XdpCandidate[]): void => {
  candidates = [...next];
};

describe('a device that is asked for', () => {
  test('is tried once Services are programmed, and is a target once it has passed', () => {
    const follower = create();
    expect(done).toEqual([]);
    expect(follower.view(2)).toMatchObject({ state: 'waiting' });
    follower.begin();
    follower.begin();
    expect(done).toEqual(['begin 2', 'trust 2', 'targets 2']);
    expect(follower.view(2)).toMatchObject({ state: 'on', lost: 0 });
    expect(logged).toEqual(['XDP forwards on a device']);
  });

  test('waits for the programs of tc, and loses XDP with them', () => {
    change({ ...eth0, hasTc: false });
    const follower = started();
    expect(done).toEqual([]);
    change(eth0);
    follower.refresh();
    change({ ...eth0, hasTc: false });
    follower.refresh();
    expect(done).toEqual(['begin 2', 'trust 2', 'targets 2', 'detach 2', 'targets ']);
  });

  test('loses XDP before the programs of tc', () => {
    const follower = started();
    follower.leave(2);
    expect(done.at(-1)).toBe('detach 2');
    expect(follower.isTarget(2)).toBe(false);
    follower.leave(2);
    follower.leave(77);
    expect(done.filter((one) => one === 'detach 2')).toHaveLength(1);
  });

  test('is not tried twice, is renamed, and is forgotten when it goes', () => {
    const follower = started();
    follower.refresh();
    change({ ...eth0, name: 'uplink' });
    follower.refresh();
    change();
    follower.refresh();
    expect(done.slice(3)).toEqual(['rename 2 uplink', 'detach 2', 'targets ']);
    expect(timers).toEqual([]);
  });

  test('that only sends is tried, too', () => {
    change({ ...eth0, ifindex: 3, use: 'send' });
    started();
    expect(done).toEqual(['begin 3 send', 'trust 3', 'targets 3']);
  });

  test('is not decided about anew when it is viewed', () => {
    change({ ...eth0, use: 'none' });
    const follower = started();
    listed = 0;
    for (let views = 0; views < 3; views += 1) follower.view(2);
    expect([listed, follower.view(77)]).toEqual([0, undefined]);
  });

  test('says why not, if it is not', () => {
    change({ ...eth0, use: 'none', reason: '--xdp has off' });
    expect(started().view(2)).toEqual({ state: 'off', reason: '--xdp has off', sent: 0, lost: 0 });
    expect([done, timers]).toEqual([[], []]);
  });
});

describe('a trial', () => {
  test('goes on until its driver takes frames, and one comes in', () => {
    taken = 0;
    received = 0;
    const follower = started();
    wait(1);
    expect(follower.view(2)).toMatchObject({ state: 'trial' });
    taken = 8;
    wait(1);
    expect(follower.isTarget(2)).toBe(false);
    received = 1;
    wait(1);
    expect(done).toEqual(['begin 2', 'trust 2', 'targets 2']);
  });

  test('that fails ends, and begins again after one minute, then two', () => {
    taken = 0;
    const follower = started();
    wait(11);
    const reason = 'its driver took 0 of 8 frames that XDP sent';
    expect(follower.view(2)).toMatchObject({ state: 'refused', reason });
    expect(done).toEqual(['begin 2', 'end 2']);
    expect(logged).toEqual([`${reason} (60)`]);
    wait(60);
    expect(done).toEqual(['begin 2', 'end 2', 'begin 2']);
    wait(100);
    expect(done).toHaveLength(4);
    wait(35);
    expect(done).toHaveLength(5);
  });

  test('that the kernel refuses affects no other device, and is told once', () => {
    change(eth0, { ...eth0, ifindex: 3, name: 'eth1' });
    failing.set('begin 2', 'EBUSY');
    const follower = started();
    expect(follower.view(2)).toMatchObject({ state: 'refused', reason: 'EBUSY' });
    expect(follower.isTarget(3)).toBe(true);
    wait(200);
    expect(logged.filter((one) => one.startsWith('EBUSY'))).toEqual(['EBUSY (60)']);
  });

  test('ends with the agent, without XDP on the device', () => {
    received = 0;
    const follower = started();
    follower.close();
    follower.close();
    expect(done).toEqual(['begin 2', 'end 2']);
    expect(timers).toEqual([]);
  });

  test('of a device that goes leaves no counters behind', () => {
    taken = 0;
    const follower = started();
    wait(11);
    change();
    follower.refresh();
    expect(done).toEqual(['begin 2', 'end 2', 'detach 2']);
    expect(logged).toHaveLength(1);
  });

  test('of a device that has just gone is no news', () => {
    failing.set('begin 2', 'ENODEV');
    expect(started().view(2)).toMatchObject({ state: 'waiting' });
    expect(logged).toEqual([]);
  });
});

describe('programs', () => {
  test('are loaded when a device may use them; it waits', async () => {
    let end = (): void => undefined;
    load = () =>
      new Promise((resolve) => {
        end = () => {
          load = () => undefined;
          resolve();
        };
      });
    const follower = started();
    expect(follower.view(2)).toMatchObject({ reason: 'its programs are being loaded' });
    end();
    await nextTurn();
    expect(done).toEqual(['begin 2', 'trust 2', 'targets 2']);
  });

  test('that are refused are not asked for again at once', async () => {
    let loads = 0;
    load = () => {
      loads += 1;
      return Promise.reject(new Error('the kernel refused a program'));
    };
    const follower = started();
    await nextTurn();
    wait(50);
    expect(loads).toBe(1);
    expect(follower.view(2)).toMatchObject({ reason: 'the kernel refused a program' });
    wait(20);
    await nextTurn();
    expect(loads).toBe(2);
    expect(done).toEqual([]);
  });
});

describe('a device that forwards', () => {
  test('and loses frames is left to tc, for longer each time', () => {
    const follower = started();
    wait(4);
    traffic = { sent: 100, lost: 20 };
    wait(2);
    const reason = 'its driver lost 20 of 120 frames of XDP within 10 s';
    expect(done.slice(3)).toEqual(['detach 2', 'targets ']);
    expect(follower.view(2)).toEqual({ state: 'refused', reason, sent: 100, lost: 20 });
    expect(logged.at(-1)).toBe(`${reason} (60)`);
    wait(62);
    expect(follower.isTarget(2)).toBe(true);
    traffic = { sent: 200, lost: 60 };
    wait(2);
    expect(logged.at(-1)).toContain('(120)');
  });

  test('of an earlier agent keeps it, and is a target at once', () => {
    adopted = [{ ifindex: 2, name: 'eth0' }];
    const follower = create();
    expect(done).toEqual([]);
    expect(follower.view(2)).toMatchObject({
      state: 'on',
      reason: 'an earlier agent has tried it',
    });
    expect(follower.isTarget(2)).toBe(true);
  });

  test('of an earlier agent loses it, if it is not asked for any more', () => {
    adopted = [{ ifindex: 2, name: 'eth0' }];
    change({ ...eth0, use: 'none' });
    create();
    expect(done).toEqual(['detach 2', 'targets ']);
  });

  test('whose program somebody else has removed has a new trial', () => {
    const follower = started();
    expect(follower.repair()).toEqual([]);
    isThere = false;
    done = [];
    expect(follower.repair()).toEqual(['eth0']);
    expect(done).toEqual(['detach 2', 'begin 2', 'trust 2', 'targets 2']);
  });

  test('keeps it when the agent ends', () => {
    const follower = started();
    follower.close();
    follower.refresh();
    expect(done).toEqual(['begin 2', 'trust 2', 'targets 2']);
  });
});

describe('a VLAN of a device', () => {
  const vlan: XdpCandidate = {
    ...{ ifindex: 5, name: 'eth0.7', mac: eth0.mac, hasTc: true },
    ...{ use: 'above', reason: 'its frames pass eth0', below: { ifindex: 2, tag: 0x8100_0007 } },
  };

  test('is served as long as that is, and is no target', () => {
    change(eth0, vlan);
    const follower = started();
    expect([follower.isServed(5), follower.isTarget(5), follower.isServed(2)]).toEqual([
      true,
      false,
      true,
    ]);
    const vlans = [{ ifindex: 5, tag: 0x8100_0007 }];
    expect(connected).toEqual([{ ifindex: 2, ports: [], vlans }]);
    expect(follower.view(5)).toMatchObject({
      state: 'on',
      reason: 'its frames pass eth0: its driver has passed the test',
    });
    change(vlan);
    follower.refresh();
    expect([follower.isServed(5), connected]).toEqual([false, []]);
    expect(follower.view(5)).toMatchObject({ state: 'off' });
  });

  test('that comes later, or gets its programs later, is told of', () => {
    const follower = started();
    change(eth0, { ...vlan, hasTc: false });
    follower.refresh();
    expect(follower.isServed(5)).toBe(false);
    done = [];
    change(eth0, vlan);
    follower.refresh();
    expect([follower.isServed(5), done]).toEqual([true, ['targets 2']]);
  });

  test('and the ports of a bond are what frames come in by', () => {
    change({ ...eth0, ports: [8, 9] });
    started();
    expect(connected).toEqual([{ ifindex: 2, ports: [8, 9], vlans: [] }]);
  });
});
