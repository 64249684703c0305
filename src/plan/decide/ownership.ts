// SPDX-License-Identifier: Apache-2.0
// Which Service owns a frontend that several ask for: the older one (creationTimestamp), then the first by
// namespace/name. When the owner gives it up, the next one gets it.
import { compareText } from '../../lib/names.ts';
import type { Service } from '../../model/types.ts';
import type { ServiceKey } from '../types.ts';

export type ServiceOf = (key: ServiceKey) => Service | undefined;

/** Negative if `a` takes precedence over `b`. */
export function comparePrecedence(a: ServiceKey, b: ServiceKey, serviceOf: ServiceOf): number {
  const ageOfA = serviceOf(a)?.createdAtMs ?? Number.POSITIVE_INFINITY;
  const ageOfB = serviceOf(b)?.createdAtMs ?? Number.POSITIVE_INFINITY;
  if (ageOfA !== ageOfB) return ageOfA < ageOfB ? -1 : 1;
  return compareText(a, b);
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
  /** The owner of the frontend, if it is not `asking` itself. Valid after `resolve`. */
  readonly otherOwner: (frontend: string, asking: ServiceKey) => ServiceKey | undefined;
}

/** More than one Service asks for the same frontend. */
interface Conflict {
  readonly contenders: Set<ServiceKey>;
  owner: ServiceKey | undefined;
}

/** Nearly every frontend has one Service: a conflict exists only for those that have had more. */
export function createFrontendOwners(serviceOf: ServiceOf): FrontendOwners {
  const sole = new Map<string, ServiceKey>();
  const conflicts = new Map<string, Conflict>();
  const unresolved = new Set<string>();

  const addOne = (service: ServiceKey, frontend: string): void => {
    const conflict = conflicts.get(frontend);
    const owner = sole.get(frontend);
    if (conflict !== undefined) {
      conflict.contenders.add(service);
      unresolved.add(frontend);
    } else if (owner === undefined || owner === service) {
      sole.set(frontend, service);
    } else {
      sole.delete(frontend);
      conflicts.set(frontend, { contenders: new Set([owner, service]), owner });
      unresolved.add(frontend);
    }
  };

  const releaseOne = (service: ServiceKey, frontend: string): void => {
    const conflict = conflicts.get(frontend);
    if (conflict === undefined) {
      sole.delete(frontend);
    } else {
      conflict.contenders.delete(service);
      unresolved.add(frontend);
    }
  };

  const resolveOne = (frontend: string, conflict: Conflict): readonly ServiceKey[] => {
    const contenders = [...conflict.contenders];
    const [first] = contenders;
    const owner = contenders.reduce<ServiceKey | undefined>(
      (best, key) =>
        best === undefined || comparePrecedence(key, best, serviceOf) < 0 ? key : best,
      undefined,
    );
    const isNew = owner !== conflict.owner;
    conflict.owner = owner;
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
    hasConflicts: () => conflicts.size > 0,
    otherOwner: (frontend, asking) => {
      const owner = conflicts.get(frontend)?.owner;
      return owner === asking ? undefined : owner;
    },
  };
}
