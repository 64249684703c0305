// SPDX-License-Identifier: Apache-2.0
import { beforeEach, expect, test, vi } from 'vitest';
import {
  followHostRules,
  type HostRulesParts,
} from '../../../../src/instance/host-rules/host-rules.ts';
import type { HostRules } from '../../../../src/on-node/netfilter/obstacle.ts';
import type { Plan, ServicePlan } from '../../../../src/plan/types.ts';

const PLAN = {
  services: new Map(),
  detector: { IPv4: { kind: 'cidr', cidr: '10.1.0.0/16' }, IPv6: undefined },
  node: { podCidrs: [] },
} as unknown as Plan;
const service = (ports: readonly number[]): ServicePlan =>
  ({
    ports: [{ frontends: ports.map((port) => ({ kind: 'NodePort', address: undefined, port })) }],
  }) as unknown as ServicePlan;
const policy = (verdict: string): HostRules => ({
  saved: [{ program: 'iptables-nft', text: `*filter\n:FORWARD ${verdict} [0:0]\nCOMMIT\n` }],
  nft: undefined,
});

let rules: HostRules;
let mark: string | undefined;
let later: (() => void) | undefined;
let laterMs: number;
let nowMs: number;
const move = vi.fn(async (_reason: string | undefined) => true);
const moved = vi.fn();
const changed = vi.fn();
const warn = vi.fn();
const read = vi.fn(async () => rules);

const follow = (parts: Partial<HostRulesParts> = {}) =>
  followHostRules({
    ...{ mayMove: true, periodMs: 30_000, read, mark: () => mark, move, moved, changed },
    plan: () => PLAN,
    localAddresses: () => [],
    clock: {
      nowMs: () => 0,
      monotonicMs: () => nowMs,
      random: () => 0,
      after: (ms, action) => {
        later = action;
        laterMs = ms;
        return () => {
          later = undefined;
        };
      },
    },
    log: { info: () => undefined, warn },
    ...parts,
  });

beforeEach(() => {
  vi.clearAllMocks();
  rules = policy('ACCEPT');
  mark = 'a';
  nowMs = 0;
});

/** It has looked once more, and waits for the next time. */
async function looked(): Promise<void> {
  const look = later;
  later = undefined;
  look?.();
  await vi.waitFor(() => expect(later).toBeDefined());
}

test('nothing speaks against eBPF: the first sync may begin, and rules are read again only when they change', async () => {
  expect(await follow().check(PLAN)).toBe(false);
  expect(read).toHaveBeenCalledTimes(1);
  later?.();
  await vi.waitFor(() => expect(later).toBeDefined());
  expect(read).toHaveBeenCalledTimes(1);
  rules = policy('DROP');
  mark = 'b';
  later?.();
  await vi.waitFor(() => expect(move).toHaveBeenCalledWith(expect.stringContaining('FORWARD')));
});

test('a frontend that comes later is compared with rules that were there before it, once', async () => {
  const closed = '-A PREROUTING -p tcp -m tcp --dport 30080 -j DROP';
  const text = `*raw\n:PREROUTING ACCEPT [0:0]\n${closed}\nCOMMIT\n`;
  rules = { saved: [{ program: 'iptables-nft', text }], nft: undefined };
  const withPorts = (...ports: readonly number[]): Plan => ({
    ...PLAN,
    services: new Map([['default/web', service(ports)]]),
  });
  const follower = follow({ localAddresses: () => ['192.0.2.11'] });
  expect(await follower.check(withPorts(30_081))).toBe(false);
  expect(await follower.check(withPorts(30_081, 30_082))).toBe(false);
  expect(move).not.toHaveBeenCalled();
  expect(await follower.check(withPorts(30_081, 30_080))).toBe(true);
  expect(move).toHaveBeenCalledWith(expect.stringContaining('--dport 30080'));
  expect(read).toHaveBeenCalledTimes(1);
});

test('the rules are read again when the node has another address', async () => {
  let addresses = ['192.0.2.11'];
  const follower = follow({ localAddresses: () => addresses });
  expect(await follower.check(PLAN)).toBe(false);
  addresses = ['192.0.2.11', '192.0.2.12'];
  later?.();
  await vi.waitFor(() => expect(read).toHaveBeenCalledTimes(2));
});

test('an obstacle moves packets to rules before the first sync', async () => {
  rules = policy('DROP');
  expect(await follow().check(PLAN)).toBe(true);
  expect(move).toHaveBeenCalledWith(expect.stringContaining('its policy is DROP'));
});

test('rules that serve packets go on while the obstacle is there, and end with it', async () => {
  rules = policy('DROP');
  const follower = follow();
  expect(await follower.check(PLAN)).toBe(true);
  expect(follower.findings()).toMatchObject([{ topic: 'forward', breaksServices: false }]);
  mark = 'b';
  await looked();
  expect([move.mock.calls.length, moved.mock.calls.length]).toEqual([1, 0]);
  rules = policy('ACCEPT');
  mark = 'c';
  await looked();
  expect(move).toHaveBeenLastCalledWith(undefined);
  expect(moved).toHaveBeenCalledTimes(1);
  expect(follower.findings()).toEqual([]);
});

test('a program that fails for once does not move packets back', async () => {
  rules = policy('DROP');
  const follower = follow();
  expect(await follower.check(PLAN)).toBe(true);
  const what = 'chain FORWARD of table ip filter';
  const unread = [{ topic: 'forward', program: 'iptables-nft-save', what } as const];
  rules = { saved: [], nft: undefined, unread };
  mark = 'b';
  await looked();
  expect(move).toHaveBeenCalledTimes(1);
  rules = policy('ACCEPT');
  mark = 'c';
  await looked();
  expect(move).toHaveBeenLastCalledWith(undefined);
});

test('rules that cannot be written leave packets with eBPF: it is told like a setting that forbids it', async () => {
  rules = policy('DROP');
  move.mockResolvedValueOnce(false);
  const follower = follow();
  expect(await follower.check(PLAN)).toBe(false);
  expect(follower.findings()).toMatchObject([{ topic: 'forward', breaksServices: true }]);
  expect(follower.problems()).toMatchObject([{ isWarning: true }]);
  mark = 'b';
  await looked();
  expect(move).toHaveBeenCalledTimes(1);
});

test('what could not be written is retried after ten seconds, then after twenty', async () => {
  rules = policy('DROP');
  move.mockResolvedValue(false);
  const follower = follow();
  await follower.check(PLAN);
  for (const [seconds, times] of [
    [9, 1],
    [10, 2],
    [29, 2],
    [30, 3],
  ] as const) {
    nowMs = seconds * 1000;
    await looked();
    expect(move).toHaveBeenCalledTimes(times);
  }
  move.mockResolvedValue(true);
  nowMs = 70_000;
  await looked();
  expect(moved).toHaveBeenCalledTimes(1);
  expect(follower.problems()).toEqual([]);
});

test('rules that could not be read are read again, although no mark has changed', async () => {
  const follower = follow();
  await follower.check(PLAN);
  mark = 'b';
  read.mockRejectedValueOnce(new Error('EAGAIN'));
  await looked();
  expect(follower.problems()).toHaveLength(1);
  rules = policy('DROP');
  await looked();
  expect(move).toHaveBeenCalledTimes(1);
  expect(follower.problems()).toEqual([]);
});

test('a move that fails ends neither the sync nor the looks', async () => {
  rules = policy('DROP');
  move.mockRejectedValueOnce(new Error('EIO'));
  const follower = follow();
  expect(await follower.check(PLAN)).toBe(false);
  expect(warn).toHaveBeenCalledWith({ reason: 'EIO' }, expect.stringContaining('could not move'));
  expect(follower.findings()).toMatchObject([{ topic: 'forward', breaksServices: true }]);
  rules = policy('ACCEPT');
  mark = 'b';
  await looked();
  expect(follower.findings()).toEqual([]);
});

test('while packets move, frontends wait: what is synced then is compared after it', async () => {
  let hasMoved: (isDone: boolean) => void = () => undefined;
  const follower = follow();
  expect(await follower.check(PLAN)).toBe(false);
  rules = policy('DROP');
  mark = 'b';
  move.mockReturnValueOnce(new Promise((resolve) => (hasMoved = resolve)));
  later?.();
  await vi.waitFor(() => expect(move).toHaveBeenCalledTimes(1));
  let isChecked = false;
  const check = follower.check(PLAN).then(() => {
    isChecked = true;
  });
  await new Promise(setImmediate);
  expect(isChecked).toBe(false);
  hasMoved(true);
  await check;
  await vi.waitFor(() => expect(moved).toHaveBeenCalledTimes(1));
});

test('where rules cannot serve packets the chain is named once, in log and status, and is a finding', async () => {
  rules = policy('DROP');
  mark = undefined;
  const follower = follow({ mayMove: false });
  expect(await follower.check(PLAN)).toBe(false);
  await looked();
  expect(read).toHaveBeenCalledTimes(2);
  expect(move).not.toHaveBeenCalled();
  expect(changed).toHaveBeenCalledTimes(2);
  expect(follower.findings()).toMatchObject([
    {
      topic: 'forward',
      breaksServices: true,
      advice: expect.stringMatching(/^add `iptables-nft -I FORWARD -d PODS -j ACCEPT` and /),
    },
  ]);
  expect(warn).toHaveBeenCalledTimes(1);
  expect(follower.problems()).toMatchObject([
    { isWarning: true, reason: expect.stringContaining('chain FORWARD of table filter') },
  ]);
  rules = policy('ACCEPT');
  later?.();
  await vi.waitFor(() => expect(follower.problems()).toEqual([]));
});

test.each([
  ['a mark that tells of changes', 'a', 1_000, 0],
  ['such a mark, and rules that take long to read', 'a', 10_000, 200],
  ['legacy tables, which have no mark', undefined, 30_000, 0],
])('%s: when it is looked again', async (_, told, afterMs, readMs) => {
  mark = told;
  read.mockImplementationOnce(async () => {
    nowMs += readMs;
    return rules;
  });
  await follow().check(PLAN);
  expect(laterMs).toBe(afterMs);
});

test('rules of this instance itself change often: they are looked at as before', async () => {
  rules = policy('DROP');
  await follow().check(PLAN);
  expect(laterMs).toBe(30_000);
});

test('rules that cannot be read change nothing, and are told', async () => {
  read.mockRejectedValueOnce(new Error('EPERM'));
  const follower = follow();
  expect(await follower.check(PLAN)).toBe(false);
  expect(move).not.toHaveBeenCalled();
  expect(follower.problems()[0]?.reason).toContain('EPERM');
});

test('after close nothing moves', async () => {
  const follower = follow();
  expect(await follower.check(PLAN)).toBe(false);
  follower.close();
  expect(later).toBeUndefined();
});

test('where nft alone is on the node the rule to add is one of nft, and advice repeats nothing', async () => {
  const chain = { family: 'inet', table: 'fw', name: 'fwd', hook: 'forward', prio: 0 };
  rules = { saved: [], nft: { nftables: [{ chain: { ...chain, policy: 'drop' } }] } };
  const follower = follow({ mayMove: false });
  await follower.check(PLAN);
  const [{ what = '', consequence = '', advice = '' } = {}] = follower.findings();
  expect(advice).toContain('`nft insert rule inet fw fwd ip daddr PODS accept`');
  expect([advice.includes(what), advice.includes(consequence)]).toEqual([false, false]);
  expect(follower.problems()[0]?.reason).toContain(
    'chain fwd of table inet fw: its policy is DROP',
  );
  expect(warn).toHaveBeenCalledTimes(1);
});

test('rules that no program prints are told once, as findings and as a warning', async () => {
  const what = 'chain early of table inet site';
  const unread = { topic: 'host-firewall', program: 'nft', what } as const;
  rules = { ...policy('ACCEPT'), unread: [unread] };
  mark = undefined;
  const follower = follow();
  expect(await follower.check(PLAN)).toBe(false);
  await looked();
  expect(changed).toHaveBeenCalledTimes(2);
  expect(follower.findings()).toMatchObject([
    { topic: 'host-firewall', what: expect.stringContaining(what), breaksServices: false },
  ]);
  expect(follower.findings()[0]?.advice).toContain('install nftables');
  expect(follower.problems()).toMatchObject([
    { isWarning: true, reason: expect.stringContaining('nft is missing') },
  ]);
  expect(warn).toHaveBeenCalledTimes(1);
});
