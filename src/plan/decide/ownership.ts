// SPDX-License-Identifier: Apache-2.0
// Which Service owns a frontend that several ask for. By age (creationTimestamp) the older one, on every node alike. Where
// one of them has no age, as in manifests, the one that serves keeps it: the incumbent. If none serves, the older one,
// then the first by namespace/name. When the owner gives it up, the next one gets it.
import { compareText } from '../../lib/names.ts';
import type { Service } from '../../model/types.ts';
import type { ServiceKey } from '../types.ts';

export type ServiceOf = (key: ServiceKey) => Service | undefined;

/** The Service that serves a frontend already. */
export type IncumbentOf = (frontend: string) => ServiceKey | undefined;

/** Negative if `a` takes precedence over `b`. */
function comparePrecedence(a: ServiceKey, b: ServiceKey, serviceOf: ServiceOf): number {
  const ageOfA = serviceOf(a)?.createdAtMs ?? Number.POSITIVE_INFINITY;
  const ageOfB = serviceOf(b)?.createdAtMs ?? Number.POSITIVE_INFINITY;
  if (ageOfA !== ageOfB) return ageOfA < ageOfB ? -1 : 1;
  return compareText(a, b);
}

/** The same with the Service that has the frontend, which only an older one can take it from. */
export function ownerAmong(
  contenders: readonly ServiceKey[],
  incumbent: ServiceKey | undefined,
  serviceOf: ServiceOf,
): ServiceKey | undefined {
  const [first] = contenders.toSorted((a, b) => comparePrecedence(a, b, serviceOf));
  if (first === undefined || incumbent === undefined || !contenders.includes(incumbent))
    return first;
  const areOfAge = [first, incumbent].every((key) => Number.isFinite(serviceOf(key)?.createdAtMs));
  return areOfAge ? first : incumbent;
}

/** Frontends by their keys, as `frontendKeysOf` makes them. */
export interface FrontendOwners {
  readonly add: (service: ServiceKey, frontends: readonly string[]) => void;
  readonly release: (service: ServiceKey, frontends: readonly string[]) => void;
  /** Of a frontend: the Services that ask for it. */
  readonly askingFor: (frontend: string) => Iterable<ServiceKey>;
  /** Resolves the ownership conflicts since the last call; returns the Services affected by a change of owner. */
  readonly resolve: () => readonly ServiceKey[];
  readonly hasConflicts: () => boolean;
  /** What an earlier agent has programmed: counts before the first owner is found. Valid until the next `resolve`. */
  readonly adopt: (incumbentOf: IncumbentOf) => void;
  /** The owner of the frontend, if it is not `asking` itself. Valid after `resolve`. */
  readonly otherOwner: (frontend: string, asking: ServiceKey) => ServiceKey | undefined;
}

/** More than one Service asks for the same frontend. */
interface Conflict {
  readonly contenders: Set<ServiceKey>;
  owner: ServiceKey | undefined;
  /** Programmed by an earlier agent. */
  incumbent?: ServiceKey | undefined;
}

/** Nearly every frontend has one Service: a conflict exists only for those that have had more. */
export function createFrontendOwners(serviceOf: ServiceOf): FrontendOwners {
  const sole = new Map<string, ServiceKey>();
  const conflicts = new Map<string, Conflict>();
  const unresolved = new Set<string>();
  /** Taken since the last `resolve`: such an owner serves nobody yet. */
  const fresh = new Set<string>();
  /** Given up since then by the Service, which may ask again in its next version. */
  const released = new Map<string, ServiceKey>();

  const addOne = (service: ServiceKey, frontend: string): void => {
    const conflict = conflicts.get(frontend);
    const owner = sole.get(frontend);
    if (conflict !== undefined) {
      conflict.contenders.add(service);
      unresolved.add(frontend);
    } else if (owner === undefined || owner === service) {
      sole.set(frontend, service);
      if (released.get(frontend) !== service) fresh.add(frontend);
    } else {
      sole.delete(frontend);
      const incumbent = released.get(frontend) ?? (fresh.has(frontend) ? undefined : owner);
      conflicts.set(frontend, { contenders: new Set([owner, service]), owner: incumbent });
      unresolved.add(frontend);
    }
  };

  const releaseOne = (service: ServiceKey, frontend: string): void => {
    const conflict = conflicts.get(frontend);
    if (conflict === undefined) {
      sole.delete(frontend);
      if (!fresh.delete(frontend)) released.set(frontend, service);
    } else {
      conflict.contenders.delete(service);
      unresolved.add(frontend);
    }
  };

  const resolveOne = (frontend: string, conflict: Conflict): readonly ServiceKey[] => {
    const contenders = [...conflict.contenders];
    const [first] = contenders;
    const owner = ownerAmong(contenders, conflict.incumbent ?? conflict.owner, serviceOf);
    const isNew = owner !== conflict.owner;
    conflict.owner = owner;
    conflict.incumbent = undefined;
    if (contenders.length < 2) conflicts.delete(frontend);
    if (first !== undefined && contenders.length === 1) sole.set(frontend, first);
    return isNew ? contenders : [];
  };

  const resolve = (): readonly ServiceKey[] => {
    const changed: ServiceKey[] = [];
    for (const frontend of unresolved) {
      const conflict = conflicts.get(frontend);
      if (conflict === undefined) continue;
      for (const key of resolveOne(frontend, conflict)) changed.push(key);
    }
    unresolved.clear();
    fresh.clear();
    released.clear();
    return changed;
  };

  return {
    add: (service, frontends) => {
      for (const frontend of frontends) addOne(service, frontend);
    },
    release: (service, frontends) => {
      for (const frontend of frontends) releaseOne(service, frontend);
    },
    askingFor: (frontend) => {
      const owner = sole.get(frontend);
      return owner === undefined ? (conflicts.get(frontend)?.contenders ?? []) : [owner];
    },
    resolve,
    adopt: (incumbentOf) => {
      for (const [frontend, conflict] of conflicts) {
        conflict.incumbent = incumbentOf(frontend);
        unresolved.add(frontend);
      }
    },
    hasConflicts: () => conflicts.size > 0,
    otherOwner: (frontend, asking) => {
      const owner = conflicts.get(frontend)?.owner;
      return owner === asking ? undefined : owner;
    },
  };
}
