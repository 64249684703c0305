// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import type { Seen } from '../../../../../../src/engines/bpf/kernel/scope/look.ts';
import {
  followScopes,
  LATEST_LOOK_MS,
  SOONEST_LOOK_MS,
} from '../../../../../../src/engines/bpf/kernel/scope/scope-follower.ts';
import { plainIndex, plainNamespaces } from '../../../../../../src/engines/bpf/scope/plain.ts';
import {
  decodeScope,
  encodeScope,
  netnsKey,
  type ScopeEntry,
  UNKNOWN_NETNS,
} from '../../../../../../src/engines/bpf/scope/state.ts';
import type { Link } from '../../../../../../src/sys/netlink/records.ts';
import type { Redirect } from '../../../../../../src/sys/netlink/redirect.ts';
import { FakeClock } from '../../../../source/apiserver/support/fake-clock.ts';

const veth = (ifindex: number, below: number): Link => ({
  ...{ ifindex, name: 'eth0', type: 1, isUp: true, isLoopback: false, kind: 'veth', below },
  ...{ master: undefined, isPeerElsewhere: true, mac: undefined, mtu: 1500, tag: undefined },
});
const networkOf = (...links: readonly Link[]) => ({
  links: new Map(links.map((one) => [one.ifindex, one])),
  addresses: new Map(),
});

const ASKED: ScopeEntry = { tgid: 40, found: [], state: 'asked' };
const REDIRECT: readonly Redirect[] = [{ kind: 'REDIRECT', chain: 'ISTIO_REDIRECT' }];

/** A map as the kernel has it, and pods by cookie. */
function nodeWith(entries: ReadonlyMap<bigint, ScopeEntry>) {
  const map = new Map([...entries].map(([cookie, entry]) => [cookie, encodeScope(entry)]));
  const pods = new Map<bigint, { redirects: readonly Redirect[] }>();
  const nothing = (): void => undefined;
  const state = {
    looks: [] as string[],
    scans: [] as string[],
    asks: nothing,
    isServed: true,
    fails: false,
    full: 0n,
  };
  const cookieOf = (key: Uint8Array): bigint => new BigUint64Array(key.slice().buffer)[0] ?? 0n;
  const seen = (cookie: bigint): Seen | undefined => {
    const pod = pods.get(cookie);
    return pod && { ...pod, inside: networkOf(veth(2, 7)) };
  };
  const plain = new BigUint64Array(4_096);
  const isPlain = (cookie: bigint): boolean => plain[plainIndex(cookie)] === cookie;
  const clock = new FakeClock();
  const logged: string[] = [];
  const follower = followScopes({
    map: {
      readAll: () => ({
        keys: new Uint8Array(new BigUint64Array([...map.keys()]).buffer),
        values: new Uint8Array([...map.values()].flatMap((value) => [...value])),
        count: map.size,
      }),
      put: (key, value) => {
        if (state.full !== 0n && cookieOf(key) === state.full) throw new Error('E2BIG');
        map.set(cookieOf(key), value);
      },
      delete: (key) => map.delete(cookieOf(key)),
    },
    plain: plainNamespaces(plain.buffer),
    listen: (onNew) => {
      state.asks = onNew;
      return { close: () => undefined };
    },
    look: async (path, cookie) => {
      state.looks.push(path);
      if (state.fails) throw new Error('EMFILE');
      return path === '/proc/40/ns/net' || path === `/run/${cookie}` ? seen(cookie) : undefined;
    },
    paths: async (which) => {
      state.scans.push(which);
      return new Map([...pods.keys()].map((cookie) => [cookie, `/run/${cookie}`]));
    },
    node: () => networkOf(veth(7, 2)),
    devices: () => [{ ifindex: 7, isServed: state.isServed }],
    clock,
    log: {
      info: (fields: { reason: string }, text: string) => logged.push(`${text}: ${fields.reason}`),
      warn: () => undefined,
    } as never,
  });
  const entry = (cookie: bigint): ScopeEntry | undefined => {
    const value = map.get(cookie);
    return value && decodeScope(value);
  };
  const quiet = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  const asks = async (cookie: bigint): Promise<void> => {
    map.set(cookie, encodeScope(ASKED));
    state.asks();
    await quiet();
  };
  const later = async (ms: number): Promise<void> => {
    clock.advance(ms);
    await quiet();
  };
  return { isPlain, map, pods, state, follower, entry, quiet, asks, later, logged };
}

test('a namespace that asks is looked at at once, by the process that asked', async () => {
  const { pods, state, entry, asks, quiet, logged, follower } = nodeWith(new Map());
  await quiet();
  pods.set(5n, { redirects: REDIRECT });
  await asks(5n);
  expect(entry(5n)).toEqual({ tgid: 40, found: ['REDIRECT', 'Istio'], state: 'packets' });
  expect(state.looks).toEqual(['/proc/40/ns/net']);
  expect(state.scans).toEqual(['all']);
  expect(logged).toHaveLength(1);
  expect(follower.counts()).toMatchObject({ known: 1, asPackets: 1, unseen: 0 });
});

test('rules that come later are found within a second, and so is their end', async () => {
  const { pods, entry, asks, later, isPlain } = nodeWith(new Map());
  pods.set(5n, { redirects: [] });
  await asks(5n);
  expect(entry(5n)?.state).toBe('sockets');
  expect(isPlain(5n)).toBe(true);
  pods.set(5n, { redirects: REDIRECT });
  await later(SOONEST_LOOK_MS);
  expect(entry(5n)?.state).toBe('packets');
  expect(isPlain(5n)).toBe(false);
  pods.set(5n, { redirects: [] });
  await later(SOONEST_LOOK_MS);
  expect(entry(5n)?.state).toBe('sockets');
});

test('one that has ended is forgotten, and one of an earlier agent, too', async () => {
  const before: ScopeEntry = { tgid: 0, found: [], state: 'packets' };
  const { pods, map, asks, later, quiet, isPlain } = nodeWith(new Map([[4n, before]]));
  await quiet();
  expect(map.has(4n)).toBe(false);
  pods.set(5n, { redirects: [] });
  await asks(5n);
  pods.delete(5n);
  expect(isPlain(5n)).toBe(true);
  await later(SOONEST_LOOK_MS);
  expect(isPlain(5n)).toBe(false);
  expect([...map.keys()]).toEqual([UNKNOWN_NETNS]);
});

test('one that the agent does not see is served at the socket, and asks again later', async () => {
  const { map, entry, asks, later, follower } = nodeWith(new Map());
  await asks(6n);
  expect(entry(6n)).toMatchObject({ found: ['unseen'], state: 'sockets' });
  expect(follower.counts().unseen).toBe(1);
  await later(LATEST_LOOK_MS);
  await later(SOONEST_LOOK_MS);
  expect(map.has(6n)).toBe(false);
});

test('pods that redirect are found before they ask, at the start and as devices come', async () => {
  const { map, pods, state, entry, later, follower, quiet } = nodeWith(new Map());
  pods.set(4n, { redirects: [] });
  await quiet();
  expect([...map.keys()]).toEqual([UNKNOWN_NETNS]);
  expect(entry(UNKNOWN_NETNS)?.state).toBe('sockets');
  pods.set(5n, { redirects: [] });
  follower.devicesChanged();
  await quiet();
  expect(state.scans).toEqual(['all', 'mounted']);
  // As its init container does.
  pods.set(5n, { redirects: REDIRECT });
  await later(SOONEST_LOOK_MS);
  expect(entry(5n)?.state).toBe('packets');
  expect(entry(UNKNOWN_NETNS)?.state).toBe('packets');
  expect(follower.counts().unlooked).toBe('packets');
});

test('a pod on whose way nobody translates is served at its socket, and so are new ones then', async () => {
  const { pods, state, entry, asks, later } = nodeWith(new Map());
  state.isServed = false;
  pods.set(5n, { redirects: REDIRECT });
  await asks(5n);
  expect(entry(5n)).toMatchObject({ state: 'sockets', found: ['REDIRECT', 'Istio', 'no-way'] });
  expect(entry(UNKNOWN_NETNS)?.state).toBe('sockets');
  state.isServed = true;
  await later(SOONEST_LOOK_MS);
  expect(entry(5n)?.state).toBe('packets');
});

test('the older a namespace, the later it is looked at again', async () => {
  const { pods, state, asks, later } = nodeWith(new Map());
  pods.set(5n, { redirects: [] });
  await asks(5n);
  for (let second = 0; second < 600; second++) await later(1_000);
  expect(state.looks.length).toBeGreaterThan(10);
  expect(state.looks.length).toBeLessThan(60);
});

test('keys are cookies', () => {
  expect([...netnsKey(0x0102n)]).toEqual([2, 1, 0, 0, 0, 0, 0, 0]);
});

test('a look that fails for once takes nothing back: it is looked at again within a second', async () => {
  const { pods, state, entry, asks, later } = nodeWith(new Map());
  pods.set(5n, { redirects: REDIRECT });
  await asks(5n);
  state.fails = true;
  await later(SOONEST_LOOK_MS);
  expect(entry(5n)?.state).toBe('packets');
  expect(entry(UNKNOWN_NETNS)?.state).toBe('packets');
  state.fails = false;
  pods.set(5n, { redirects: [] });
  await later(SOONEST_LOOK_MS);
  expect(entry(5n)?.state).toBe('sockets');
});

test('a namespace that has no room in the map holds up no other', async () => {
  const { pods, state, entry, quiet } = nodeWith(new Map());
  for (const cookie of [5n, 6n]) pods.set(cookie, { redirects: REDIRECT });
  state.full = 5n;
  await quiet();
  await quiet();
  expect(entry(5n)).toBeUndefined();
  expect(entry(6n)?.state).toBe('packets');
  expect(entry(UNKNOWN_NETNS)?.state).toBe('packets');
});
