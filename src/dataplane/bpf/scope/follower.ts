// SPDX-License-Identifier: Apache-2.0
// Keeps fl_netns: looks at each network namespace that connects to a Service for the first time, at once, and again later,
// because rules may come after the first connection; removes those that have ended.
import { reasonOf } from '../../../errors.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Logger } from '../../../log.ts';
import type { BpfMap } from '../../../sys/native.ts';
import type { Network } from '../../../sys/netlink/network.ts';
import type { ScopeView } from '../../snapshot.ts';
import { judged, type PodDevice, unlookedState, type Way, wayOf } from './judge.ts';
import type { Seen } from './look.ts';
import {
  decodeScope,
  encodeScope,
  netnsKey,
  reasonFor,
  type ScopeEntry,
  UNKNOWN_NETNS,
} from './state.ts';

/** A namespace is young for five minutes: until then a mesh may still write its rules. */
const YOUNG_MS = 300_000;
export const YOUNG_LOOK_MS = 1_000;
export const LATER_LOOK_MS = 30_000;

export interface FollowerParts {
  readonly map: Pick<BpfMap, 'readAll' | 'put' | 'delete'>;
  /** Calls back when there are new entries, until it is closed. */
  readonly listen: (onNew: () => void) => { close(): void };
  readonly look: (path: string, cookie: bigint) => Promise<Seen | undefined>;
  readonly devicesEverywhere: () => Promise<readonly Network[]>;
  readonly pathsByCookie: () => Promise<ReadonlyMap<bigint, string>>;
  readonly node: () => Pick<Network, 'links'>;
  /** Devices of the node, and whether packets that come in by them are translated. */
  readonly devices: () => readonly PodDevice[];
  readonly clock: Pick<Clock, 'monotonicMs' | 'after'>;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

interface Known {
  readonly sinceMs: number;
  readonly dueMs: number;
  readonly path: string | undefined;
  readonly way: Way;
}

export interface ScopeFollower {
  /** The devices of the node have changed. */
  devicesChanged(): void;
  counts(): Pick<ScopeView, 'known' | 'asPackets' | 'unseen' | 'unlooked'>;
  /** The pass that runs ends by itself. The map stays as it is. */
  close(): void;
}

export const NOTHING_KNOWN = { known: 0, asPackets: 0, unseen: 0, unlooked: 'sockets' } as const;

/** Begins at once; what the map holds of an earlier agent counts until it has been looked at again. */
export const followScopes = (parts: FollowerParts): ScopeFollower => new Follower(parts);

class Follower implements ScopeFollower {
  readonly #parts: FollowerParts;
  readonly #known = new Map<bigint, Known>();
  readonly #ring: { close(): void };
  /** Also of namespaces that have not asked. */
  #isAnyServed = false;
  #counts: ReturnType<ScopeFollower['counts']> = NOTHING_KNOWN;
  #unlooked: ScopeView['unlooked'] = 'sockets';
  #cancel: () => void = () => undefined;
  /** Of which the ways were read. */
  #devicesText = '';
  #isRunning = false;
  #isRequested = false;
  #isClosed = false;
  #failure = '';

  constructor(parts: FollowerParts) {
    this.#parts = parts;
    this.#ring = parts.listen(() => this.#request());
    this.#request();
  }

  devicesChanged(): void {
    this.#request();
  }

  counts() {
    return this.#counts;
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
    this.#ring.close();
  }

  #request(): void {
    this.#isRequested = true;
    if (!this.#isRunning) void this.#run();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    this.#cancel();
    while (this.#isRequested && !this.#isClosed) {
      this.#isRequested = false;
      try {
        await this.#pass();
        this.#failure = '';
      } catch (error) {
        const reason = reasonOf(error);
        const text = 'network namespaces cannot be looked at; retried';
        if (reason !== this.#failure) this.#parts.log.warn({ reason }, text);
        this.#failure = reason;
      }
    }
    this.#isRunning = false;
    if (!this.#isClosed)
      this.#cancel = this.#parts.clock.after(YOUNG_LOOK_MS, () => this.#request());
  }

  async #pass(): Promise<void> {
    const { clock } = this.#parts;
    const entries = this.#read();
    const due = [...entries].filter(
      ([cookie]) => (this.#known.get(cookie)?.dueMs ?? 0) <= clock.monotonicMs(),
    );
    const find = lazily(this.#parts.pathsByCookie);
    for (const [cookie, entry] of due) {
      if (this.#isClosed) return;
      await this.#lookAt(cookie, entry, find);
    }
    await this.#readWays();
    this.#writeUnlooked();
    this.#count();
  }

  #read(): ReadonlyMap<bigint, ScopeEntry> {
    const { keys, values, count } = this.#parts.map.readAll();
    const cookies = new BigUint64Array(keys.slice().buffer);
    const entries = new Map<bigint, ScopeEntry>();
    for (let index = 0; index < count; index++) {
      const cookie = cookies[index] ?? UNKNOWN_NETNS;
      if (cookie === UNKNOWN_NETNS) continue;
      entries.set(cookie, decodeScope(values.subarray(index * 8, index * 8 + 8)));
    }
    for (const cookie of this.#known.keys()) if (!entries.has(cookie)) this.#known.delete(cookie);
    return entries;
  }

  async #lookAt(
    cookie: bigint,
    entry: ScopeEntry,
    find: () => Promise<ReadonlyMap<bigint, string>>,
  ): Promise<void> {
    const known = this.#known.get(cookie);
    const guess = known?.path ?? (entry.tgid === 0 ? undefined : `/proc/${entry.tgid}/ns/net`);
    let path = guess;
    let seen = guess === undefined ? undefined : await this.#tryLook(guess, cookie);
    if (seen === undefined) {
      path = (await find()).get(cookie);
      seen = path === undefined ? undefined : await this.#tryLook(path, cookie);
    }
    if (seen === undefined) this.#missed(cookie, entry);
    else this.#saw(cookie, entry, path, seen);
  }

  /** One that may not be entered by this path may be by another. */
  async #tryLook(path: string, cookie: bigint): Promise<Seen | undefined> {
    try {
      return await this.#parts.look(path, cookie);
    } catch {
      return undefined;
    }
  }

  #saw(cookie: bigint, before: ScopeEntry, path: string | undefined, seen: Seen): void {
    const way = wayOf(seen.inside, this.#parts.node(), this.#parts.devices());
    const after = judged({ redirects: seen.redirects, way }, before.tgid);
    this.#write(cookie, before, after);
    this.#remember(cookie, path, way);
  }

  /** A new one that this agent does not see; it asks again if it has not ended by the next look, as others have by now. */
  #missed(cookie: bigint, before: ScopeEntry): void {
    if (before.state !== 'asked') {
      this.#parts.map.delete(netnsKey(cookie));
      this.#known.delete(cookie);
      return;
    }
    this.#write(cookie, before, { tgid: before.tgid, found: ['unseen'], state: 'sockets' });
    this.#remember(cookie, undefined, 'none');
  }

  #write(cookie: bigint, before: ScopeEntry, after: ScopeEntry): void {
    const bytes = encodeScope(after);
    if (encodeScope(before).every((byte, index) => byte === bytes[index])) return;
    this.#parts.map.put(netnsKey(cookie), bytes);
    if (after.state === before.state || (before.state === 'asked' && after.state === 'sockets')) {
      return;
    }
    const fields = { netns: String(cookie), pid: after.tgid, reason: reasonFor(after.found) };
    const how = after.state === 'packets' ? 'as packets' : 'at their sockets';
    this.#parts.log.info(fields, `pods of a network namespace are served ${how}`);
  }

  #remember(cookie: bigint, path: string | undefined, way: Way): void {
    const nowMs = this.#parts.clock.monotonicMs();
    const sinceMs = this.#known.get(cookie)?.sinceMs ?? nowMs;
    const isYoung = path !== undefined && nowMs - sinceMs < YOUNG_MS;
    const dueMs = nowMs + (isYoung ? YOUNG_LOOK_MS : LATER_LOOK_MS);
    this.#known.set(cookie, { sinceMs, dueMs, path, way });
  }

  /** When devices come, go, or get their programs. */
  async #readWays(): Promise<void> {
    const { devicesEverywhere, devices, node } = this.#parts;
    const now = devices();
    const text = now.map(({ ifindex, isServed }) => `${ifindex}${isServed}`).join();
    if (text === this.#devicesText) return;
    // As long as it is certain, nobody is asked: there is a namespace for each pod.
    if (this.#isAnyServed && now.some(({ isServed }) => isServed)) return;
    const all = await devicesEverywhere();
    this.#isAnyServed = all.some((one) => wayOf(one, node(), now) === 'served');
    this.#devicesText = text;
  }

  #writeUnlooked(): void {
    const asked = [...this.#known.values()].map(({ way }) => way);
    const state = unlookedState(this.#isAnyServed, asked);
    this.#parts.map.put(netnsKey(UNKNOWN_NETNS), encodeScope({ tgid: 0, found: [], state }));
    this.#unlooked = state;
  }

  #count(): void {
    const entries = [...this.#read().values()];
    this.#counts = {
      known: entries.length,
      asPackets: entries.filter(({ state }) => state === 'packets').length,
      unseen: entries.filter(({ found }) => found.includes('unseen')).length,
      unlooked: this.#unlooked,
    };
  }
}

/** At most once. */
function lazily<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
