// SPDX-License-Identifier: Apache-2.0
// The part of each Service that one of several dataplanes has programmed: read from it at start, then updated
// at each sync.
import { frontendKey, nodePortKey } from '../../plan/decide/frontends.ts';
import type { IncumbentOf } from '../../plan/decide/ownership.ts';
import type { ServiceKey, ServicePlan } from '../../plan/types.ts';
import type { FailedEntry, HeldFrontend } from '../dataplane.ts';
import { frontendKeyText } from '../entry.ts';
import { unserved } from './merge.ts';
import { heldTexts } from './share.ts';

/** The part of each Service that a dataplane was given; undefined: none. */
export type Asked = ReadonlyMap<ServiceKey, ServicePlan | undefined>;

export interface Holdings {
  services(): Iterable<ServiceKey>;
  /** What is programmed of all these Services together, because a frontend may move between Services. */
  of(keys: Iterable<ServiceKey>): ReadonlySet<string>;
  /** Records the result of a sync. */
  note(asked: Asked, failed: readonly FailedEntry[]): void;
}

/** Who serves a frontend: as an earlier agent has programmed it, by the keys of the plan. */
export function incumbentsIn(held: Iterable<HeldFrontend>): IncumbentOf {
  const owners = new Map<string, ServiceKey>();
  for (const { id, service } of held) {
    const { family, address, port, protocol } = id;
    // The refusal of a ClusterIP's other ports is no frontend that Services contend for.
    if (port === undefined || protocol === undefined) continue;
    const key =
      address === undefined
        ? nodePortKey(port, protocol, family)
        : frontendKey(address, port, protocol);
    owners.set(key, service);
  }
  return (frontend) => owners.get(frontend);
}

/** For a Service in sync the share itself, which costs no memory; else the texts of its frontends. */
type Holding = ServicePlan | Set<string>;

export function createHoldings(frontends: Iterable<HeldFrontend>): Holdings {
  const held = new Map<ServiceKey, Holding>(textsByService(frontends));
  const textsOf = (key: ServiceKey): Iterable<string> => {
    const holding = held.get(key);
    return holding instanceof Set ? holding : heldTexts(holding);
  };
  return {
    services: () => held.keys(),
    of(keys) {
      const texts = new Set<string>();
      for (const key of keys) for (const text of textsOf(key)) texts.add(text);
      return texts;
    },
    note(asked, failed) {
      const failures = byService(unserved(failed));
      for (const [key, share] of asked) {
        const refused = failures.get(key);
        const holding = refused ? left(new Set(textsOf(key)), share, refused) : share;
        if (holding === undefined) held.delete(key);
        else held.set(key, holding);
      }
    },
  };
}

function textsByService(frontends: Iterable<HeldFrontend>): ReadonlyMap<ServiceKey, Set<string>> {
  const services = new Map<ServiceKey, Set<string>>();
  for (const { id, service } of frontends) {
    const texts = services.get(service) ?? new Set();
    services.set(service, texts.add(frontendKeyText(id)));
  }
  return services;
}

function byService(
  failed: readonly FailedEntry[],
): ReadonlyMap<ServiceKey | undefined, readonly FailedEntry[]> {
  const services = new Map<ServiceKey | undefined, FailedEntry[]>();
  for (const entry of failed) {
    const others = services.get(entry.service);
    if (others === undefined) services.set(entry.service, [entry]);
    else others.push(entry);
  }
  return services;
}

/**
 * After a sync that failed in part: what was programmed and could not be removed or was to stay, and what is
 * new and did not fail. If something other than a frontend failed, nothing new counts as programmed.
 */
function left(
  before: ReadonlySet<string>,
  share: ServicePlan | undefined,
  failed: readonly FailedEntry[],
): Set<string> {
  const refused = new Set(
    failed.flatMap(({ id }) => (id.kind === 'frontend' ? [frontendKeyText(id.frontend)] : [])),
  );
  const isOfFrontends = failed.every(({ id }) => id.kind === 'frontend');
  const asked = new Set(heldTexts(share));
  const stays = [...before].filter((text) => asked.has(text) || refused.has(text));
  const added = isOfFrontends ? [...asked].filter((text) => !refused.has(text)) : [];
  return new Set([...stays, ...added]);
}
