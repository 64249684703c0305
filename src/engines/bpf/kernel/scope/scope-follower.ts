// SPDX-License-Identifier: Apache-2.0
// Keeps fl_netns: looks at each network namespace that connects to a Service for the first time, at once, and at those of new
// pods as they come; and again later, because rules may come after the first connection. Removes those that have ended.
import { reasonOf } from '../../../../errors.ts';
import type { Clock } from '../../../../lib/clock.ts';
import type { Logger } from '../../../../log.ts';
import type { BpfMap } from '../../../../sys/native.ts';
import type { Network } from '../../../../sys/netlink/network.ts';
import type { ScopeView } from '../../../snapshot.ts';
import { judged, type PodDevice, unlookedState, type Way, wayOf } from '../../scope/judge.ts';
import type { PlainNamespaces } from '../../scope/plain.ts';
import {
  decodeScope,
  encodeScope,
  netnsKey,
  reasonFor,
  type ScopeEntry,
  UNKNOWN_NETNS,
} from '../../scope/state.ts';
import type { Paths, Seen } from './look.ts';

/** The next look is due after an eighth of the age of a namespace: a mesh writes its rules while a pod is young. */
const AGE_TO_NEXT = 8;
export const SOONEST_LOOK_MS = 1_000;
export const LATEST_LOOK_MS = 60_000;

export interface ScopeFollowerParts {
  readonly map: Pick<BpfMap, 'readAll' | 'put' | 'delete'>;
  /** Those that the programs need not look up. */
  readonly plain: PlainNamespaces;
  /** Calls back when there are new entries, until it is closed. */
  readonly listen: (onNew: () => void) => { close(): void };
  readonly look: (path: string, cookie: bigint) => Promise<Seen | undefined>;
  /** Namespaces but the node's own, of all processes or those that are mounted: new pods have them mounted first. */
  readonly paths: (which: 'all' | 'mounted') => Promise<Paths>;
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
  readonly isAsPackets: boolean;
  /** It has connected to a Service. */
  readonly hasAsked: boolean;
}

export const NOTHING_KNOWN = { known: 0, asPackets: 0, unseen: 0, unlooked: 'sockets' } as const;

/** Begins at once; what the map holds of an earlier agent counts until it has been looked at again. */
export const followScopes = (parts: ScopeFollowerParts): ScopeFollower => new ScopeFollower(parts);

type Find = () => Promise<Paths>;

export class ScopeFollower {
  readonly #parts: ScopeFollowerParts;
  readonly #known = new Map<bigint, Known>();
  readonly #ring: { close(): void };
  /** Where to look for namespaces that have not asked. */
  #discovers: 'all' | 'mounted' | undefined = 'all';
  #counts: Pick<ScopeView, 'known' | 'asPackets' | 'unseen' | 'unlooked'> = NOTHING_KNOWN;
  #cancel: () => void = () => undefined;
  #isRunning = false;
  #isRequested = false;
  #isClosed = false;
  #failure = '';

  constructor(parts: ScopeFollowerParts) {
    this.#parts = parts;
    this.#ring = parts.listen(() => this.#request());
    this.#request();
  }

  /** The devices of the node have changed: there may be new pods. */
  devicesChanged(): void {
    this.#discovers ??= 'mounted';
    this.#request();
  }

  counts(): Pick<ScopeView, 'known' | 'asPackets' | 'unseen' | 'unlooked'> {
    return this.#counts;
  }

  /** The pass that runs ends by itself. The map stays as it is. */
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
        const text = 'cannot read the rules of network namespaces; will retry';
        if (reason !== this.#failure) this.#parts.log.warn({ reason }, text);
        this.#failure = reason;
      }
    }
    this.#isRunning = false;
    const again = (): void => this.#request();
    if (!this.#isClosed) this.#cancel = this.#parts.clock.after(SOONEST_LOOK_MS, again);
  }

  /** Those that ask come first. */
  async #pass(): Promise<void> {
    const find = once(() => this.#parts.paths('all'));
    await this.#lookAtDue(find);
    const which = this.#discovers;
    this.#discovers = undefined;
    if (which !== undefined) {
      this.#discover(await (which === 'all' ? find() : this.#parts.paths(which)));
      await this.#lookAtDue(find);
    }
    this.#count();
  }

  #discover(paths: Paths): void {
    const sinceMs = this.#parts.clock.monotonicMs();
    for (const [cookie, path] of paths) {
      if (this.#known.has(cookie)) continue;
      const unlooked = { way: 'none', isAsPackets: false, hasAsked: false } as const;
      this.#known.set(cookie, { sinceMs, dueMs: sinceMs, path, ...unlooked });
    }
  }

  async #lookAtDue(find: Find): Promise<void> {
    const entries = this.#read();
    const nowMs = this.#parts.clock.monotonicMs();
    const all = new Set([...entries.keys(), ...this.#known.keys()]);
    const isDue = (cookie: bigint): boolean =>
      entries.get(cookie)?.state === 'asked' || (this.#known.get(cookie)?.dueMs ?? 0) <= nowMs;
    const failures: unknown[] = [];
    for (const cookie of [...all].filter(isDue)) {
      if (this.#isClosed) return;
      // One that has no room in the map holds up no other.
      await this.#lookAt(cookie, entries.get(cookie), find).catch((error) => failures.push(error));
    }
    this.#writeUnlooked();
    if (failures.length > 0) throw failures[0];
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
    return entries;
  }

  async #lookAt(cookie: bigint, entry: ScopeEntry | undefined, find: Find): Promise<void> {
    const known = this.#known.get(cookie)?.path;
    const guess = known ?? (entry?.tgid ? `/proc/${entry.tgid}/ns/net` : undefined);
    let path = guess;
    let seen = guess === undefined ? undefined : await this.#tryLook(guess, cookie);
    if (seen === undefined || seen === 'unknown') {
      const other = (await find()).get(cookie);
      path = other ?? guess;
      seen = other === undefined ? seen : await this.#tryLook(other, cookie);
    }
    const isKnown = entry !== undefined && entry.state !== 'asked';
    if (seen === 'unknown' && isKnown) this.#lookSoon(cookie, entry);
    else if (seen === undefined || seen === 'unknown') this.#missed(cookie, entry);
    else this.#saw(cookie, entry, path, seen);
  }

  /** `unknown`: it may not be entered by this path, or not now. */
  async #tryLook(path: string, cookie: bigint): Promise<Seen | 'unknown' | undefined> {
    try {
      return await this.#parts.look(path, cookie);
    } catch {
      return 'unknown';
    }
  }

  /** What is known of it counts until it can be looked at again. */
  #lookSoon(cookie: bigint, { state }: ScopeEntry): void {
    const nowMs = this.#parts.clock.monotonicMs();
    const unlooked = { path: undefined, way: 'none', hasAsked: true } as const;
    const known = this.#known.get(cookie) ?? {
      ...{ sinceMs: nowMs, isAsPackets: state === 'packets' },
      ...unlooked,
    };
    this.#known.set(cookie, { ...known, dueMs: nowMs + SOONEST_LOOK_MS });
  }

  /** What has not asked needs an entry only if it is to be served as packets. */
  #saw(cookie: bigint, before: ScopeEntry | undefined, path: string | undefined, seen: Seen): void {
    const way = wayOf(seen.inside, this.#parts.node(), this.#parts.devices());
    const after = judged({ redirects: seen.redirects, way }, before?.tgid ?? 0);
    const isAsPackets = after.state === 'packets';
    if (before !== undefined || isAsPackets) this.#write(cookie, before, after);
    if (isAsPackets) this.#parts.plain.remove(cookie);
    else this.#parts.plain.add(cookie);
    this.#remember(cookie, { path, way, isAsPackets, hasAsked: before !== undefined });
  }

  /** A new one that this agent does not see; it asks again if it has not ended by the next look, as others have by now. */
  #missed(cookie: bigint, before: ScopeEntry | undefined): void {
    if (before?.state !== 'asked') {
      this.#parts.map.delete(netnsKey(cookie));
      this.#parts.plain.remove(cookie);
      this.#known.delete(cookie);
      return;
    }
    this.#write(cookie, before, { tgid: before.tgid, found: ['unseen'], state: 'sockets' });
    const unseen = { path: undefined, way: 'none', isAsPackets: false, hasAsked: true } as const;
    this.#remember(cookie, unseen);
  }

  #write(cookie: bigint, before: ScopeEntry | undefined, after: ScopeEntry): void {
    const bytes = encodeScope(after);
    if (before && encodeScope(before).every((byte, index) => byte === bytes[index])) return;
    this.#parts.map.put(netnsKey(cookie), bytes);
    const was = before?.state === 'packets';
    if (was === (after.state === 'packets')) return;
    const fields = { netns: String(cookie), pid: after.tgid, reason: reasonFor(after.found) };
    const how = was ? 'at their sockets' : 'as packets';
    this.#parts.log.info(fields, `pods of a network namespace are served ${how}`);
  }

  #remember(cookie: bigint, seen: Omit<Known, 'sinceMs' | 'dueMs'>): void {
    const nowMs = this.#parts.clock.monotonicMs();
    const sinceMs = this.#known.get(cookie)?.sinceMs ?? nowMs;
    const isFound = seen.path !== undefined;
    const partMs = isFound ? (nowMs - sinceMs) / AGE_TO_NEXT : LATEST_LOOK_MS;
    const dueMs = nowMs + Math.min(LATEST_LOOK_MS, Math.max(SOONEST_LOOK_MS, partMs));
    this.#known.set(cookie, { sinceMs, dueMs, ...seen });
  }

  #writeUnlooked(): void {
    const state = unlookedState(this.#known.values());
    this.#parts.map.put(netnsKey(UNKNOWN_NETNS), encodeScope({ tgid: 0, found: [], state }));
    this.#counts = { ...this.#counts, unlooked: state };
  }

  #count(): void {
    const entries = [...this.#read().values()];
    this.#counts = {
      ...this.#counts,
      known: entries.length,
      asPackets: entries.filter(({ state }) => state === 'packets').length,
      unseen: entries.filter(({ found }) => found.includes('unseen')).length,
    };
  }
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
