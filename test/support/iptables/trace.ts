// SPDX-License-Identifier: Apache-2.0
// A packet through a ruleset as netfilter would lead it: PREROUTING, the routing decision, then INPUT or FORWARD and
// POSTROUTING; what the node sends itself through OUTPUT and POSTROUTING, and if it is for the node, in again by lo.
import type { Ruleset, TableName } from '../../../src/engines/iptables/rules/types.ts';
import { throughTable } from './chain.ts';
import type { Hook, Path, TracedPacket, World } from './packet.ts';

/** In the order in which the tables of a hook are asked. */
const TABLES: Readonly<Record<Hook, readonly TableName[]>> = {
  PREROUTING: ['mangle', 'nat'],
  INPUT: ['mangle', 'filter'],
  FORWARD: ['mangle', 'filter'],
  OUTPUT: ['mangle', 'nat', 'filter'],
  POSTROUTING: ['mangle', 'nat'],
};

export function trace(ruleset: Ruleset, world: World, packet: TracedPacket): readonly Path[] {
  const start: Path = {
    packet,
    probability: 1,
    verdict: 'accept',
    isMasqueraded: false,
    remembered: [],
    matched: [],
  };
  const isLocal = packet.inInterface === undefined;
  return isLocal ? sent(ruleset, world, start) : received(ruleset, world, start);
}

type Onward = (path: Path) => readonly Path[];

/** What is dropped or rejected goes no further. */
const onward = (paths: readonly Path[], next: Onward): readonly Path[] =>
  paths.flatMap((path) => (path.verdict === 'accept' ? next(path) : [path]));

function received(ruleset: Ruleset, world: World, start: Path): readonly Path[] {
  const at = hooksOf(ruleset, world);
  return onward(at('PREROUTING')(start), (path) =>
    world.isLocal(path.packet.destination)
      ? at('INPUT')(path)
      : onward(at('FORWARD')(path), at('POSTROUTING')),
  );
}

function sent(ruleset: Ruleset, world: World, start: Path): readonly Path[] {
  const at = hooksOf(ruleset, world);
  /** Its connection is known already, so nat is not asked again. */
  const again = (path: Path): readonly Path[] => {
    if (!world.isLocal(path.packet.destination)) return [path];
    const back = { ...path, packet: { ...path.packet, inInterface: 'lo' } };
    return onward(at('PREROUTING', false)(back), at('INPUT'));
  };
  const left = onward(at('OUTPUT')(start), at('POSTROUTING'));
  return onward(left, again);
}

const hooksOf =
  (ruleset: Ruleset, world: World) =>
  (hook: Hook, hasNat = true): Onward =>
  (path) => {
    let paths: readonly Path[] = [path];
    for (const name of TABLES[hook]) {
      const table = ruleset.tables.find((one) => one.name === name);
      const isAsked = name !== 'nat' || (hasNat && path.packet.state === 'NEW');
      if (table === undefined || !isAsked) continue;
      paths = onward(paths, (one) => throughTable(table, hook, world, one));
    }
    return paths;
  };
