// SPDX-License-Identifier: Apache-2.0
// Who has which frontend when several Services ask for it: the older Service (creationTimestamp), then the
// first by namespace/name. A Service that lost gets the frontend when the winner lets go.
import { compareText } from '../../lib/names.ts';
import type { Service } from '../../model/types.ts';
import type { ServiceKey } from '../types.ts';

export type ServiceOf = (key: ServiceKey) => Service | undefined;

/** Negative if `a` wins over `b`. */
export function compareClaimants(a: ServiceKey, b: ServiceKey, serviceOf: ServiceOf): number {
  const ageOfA = serviceOf(a)?.createdAtMs ?? Number.POSITIVE_INFINITY;
  const ageOfB = serviceOf(b)?.createdAtMs ?? Number.POSITIVE_INFINITY;
  if (ageOfA !== ageOfB) return ageOfA < ageOfB ? -1 : 1;
  return compareText(a, b);
}

export interface ClaimBook {
  readonly add: (key: ServiceKey, claims: readonly string[]) => void;
  readonly release: (key: ServiceKey, claims: readonly string[]) => void;
  /** Decides what add and release left open; returns the Services for which an outcome changed. */
  readonly settle: () => readonly ServiceKey[];
  readonly hasContests: () => boolean;
  /** The winner of the claim, if it is not `asking` itself. Valid after `settle`. */
  readonly otherOwner: (claim: string, asking: ServiceKey) => ServiceKey | undefined;
}

interface Contest {
  readonly claimants: Set<ServiceKey>;
  winner: ServiceKey | undefined;
}

/** Nearly every claim has one claimant: a contest exists only for those that have had more. */
export function createClaimBook(serviceOf: ServiceOf): ClaimBook {
  const sole = new Map<string, ServiceKey>();
  const contests = new Map<string, Contest>();
  const open = new Set<string>();

  const addOne = (key: ServiceKey, claim: string): void => {
    const contest = contests.get(claim);
    const holder = sole.get(claim);
    if (contest !== undefined) {
      contest.claimants.add(key);
      open.add(claim);
    } else if (holder === undefined || holder === key) {
      sole.set(claim, key);
    } else {
      sole.delete(claim);
      contests.set(claim, { claimants: new Set([holder, key]), winner: holder });
      open.add(claim);
    }
  };

  const releaseOne = (key: ServiceKey, claim: string): void => {
    const contest = contests.get(claim);
    if (contest === undefined) {
      sole.delete(claim);
    } else {
      contest.claimants.delete(key);
      open.add(claim);
    }
  };

  const settleOne = (claim: string, contest: Contest): readonly ServiceKey[] => {
    const claimants = [...contest.claimants];
    const [first] = claimants;
    const winner = claimants.reduce<ServiceKey | undefined>(
      (best, key) =>
        best === undefined || compareClaimants(key, best, serviceOf) < 0 ? key : best,
      undefined,
    );
    const isNew = winner !== contest.winner;
    contest.winner = winner;
    if (claimants.length < 2) contests.delete(claim);
    if (first !== undefined && claimants.length === 1) sole.set(claim, first);
    return isNew ? claimants : [];
  };

  const settle = (): readonly ServiceKey[] => {
    const changed: ServiceKey[] = [];
    for (const claim of open) {
      const contest = contests.get(claim);
      if (contest === undefined) continue;
      for (const key of settleOne(claim, contest)) changed.push(key);
    }
    open.clear();
    return changed;
  };

  return {
    add: (key, claims) => {
      for (const claim of claims) addOne(key, claim);
    },
    release: (key, claims) => {
      for (const claim of claims) releaseOne(key, claim);
    },
    settle,
    hasContests: () => contests.size > 0,
    otherOwner: (claim, asking) => {
      const winner = contests.get(claim)?.winner;
      return winner === asking ? undefined : winner;
    },
  };
}
