// SPDX-License-Identifier: Apache-2.0
// What an agent has done since a given time: how its lists and watches ended, and how many lists it made.
import { expect } from 'vitest';
import type { ClusterStatus, WatchReport } from '../../../../src/source/apiserver/cluster.ts';
import type { WatchName } from '../../../../src/source/apiserver/kinds.ts';
import type { EndReason } from '../../../../src/source/apiserver/watch/watch-error.ts';
import { untilHolds } from '../../../support/until.ts';

export interface FaultCounts {
  /** How many attempts of each kind have ended for this reason. */
  ended(reason: EndReason): Promise<ReadonlyMap<WatchName, number>>;
  /** Lists of all kinds, streamed or paged; each page counts. */
  lists(): Promise<number>;
  suspicious(): Promise<number>;
}

type AskStatus = () => Promise<ClusterStatus>;

/** Resolves when every kind is watched and there are no problems. */
export async function untilFollowed(status: AskStatus): Promise<void> {
  await untilHolds(async () => {
    const { watches, problems } = await status();
    expect(problems).toEqual([]);
    expect(new Set(watches.map(({ state }) => state))).toEqual(new Set(['watching']));
  });
}

export async function countFromNow(status: AskStatus): Promise<FaultCounts> {
  const before = new Map((await status()).watches.map((watch) => [watch.kind, watch]));
  const grown = async (of: (watch: WatchReport) => number): Promise<Map<WatchName, number>> => {
    const { watches } = await status();
    return new Map(watches.map((watch) => [watch.kind, of(watch) - of(before.get(watch.kind)!)]));
  };
  return {
    ended: (reason) => grown(({ counters }) => counters.ends[reason]),
    lists: async () =>
      sum(await grown(({ counters }) => counters.listStarts + counters.watchListStarts)),
    suspicious: async () => sum(await grown(({ counters }) => counters.suspiciousLists)),
  };
}

/** Of all kinds. */
export function sum(counts: ReadonlyMap<WatchName, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}

/** Of the kind with the fewest. */
export function least(counts: ReadonlyMap<WatchName, number>): number {
  return Math.min(...counts.values());
}
