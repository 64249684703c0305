// SPDX-License-Identifier: Apache-2.0
// Reads all facts of the node, each by a reader of its own: what one cannot read, the others still tell. Takes a few milliseconds.
import { reasonOf } from '../../errors.ts';
import { FAMILIES } from '../../model/types.ts';
import type { Network } from '../../sys/netlink/network.ts';
import { routingRules } from '../../sys/netlink/policy-rules.ts';
import type { NodeFacts, PolicyRule, Reading } from '../facts.ts';
import { readCni } from './cni.ts';
import { addressesIn, reversePaths } from './devices.ts';
import { createMarksReader } from './marks.ts';
import { withNames } from './program-names.ts';
import { cgroupPrograms, devicePrograms } from './programs.ts';

export interface FactsParts {
  readonly network: () => Network;
  /** Undefined: no programs are attached to one. */
  readonly cgroup: string | undefined;
  readonly cniFolder: string;
  /** Names of the programs of this instance, by id; a probe has none. */
  readonly ownPrograms?: () => ReadonlyMap<number, string>;
}

/** Never throws: a reader that fails says why. */
export function createFactsReader({
  network,
  cgroup,
  cniFolder,
  ownPrograms = () => new Map(),
}: FactsParts): () => NodeFacts {
  const marks = createMarksReader();
  return () => ({
    rules: reading('ip rule', policyRules),
    markTargets: reading('rules of nf_tables', marks),
    cni: reading(cniFolder, () => readCni(cniFolder)),
    reversePath: reading('rp_filter', () => reversePaths(network())),
    programs: reading('BPF programs of devices', () =>
      withNames(devicePrograms(network()), ownPrograms),
    ),
    cgroupPrograms:
      cgroup === undefined
        ? { value: [] }
        : reading('BPF programs of the cgroup', () =>
            withNames(cgroupPrograms(cgroup), ownPrograms),
          ),
    addresses: reading('addresses', () => addressesIn(network())),
  });
}

const policyRules = (): readonly PolicyRule[] =>
  FAMILIES.flatMap((family) => rulesOf(family).map((rule) => ({ family, ...rule })));

/** A kernel without IPv6 has no rules for it. */
function rulesOf(family: (typeof FAMILIES)[number]): ReturnType<typeof routingRules> {
  try {
    return routingRules(family);
  } catch (error) {
    if (family === 'IPv6' && reasonOf(error) === 'EOPNOTSUPP') return [];
    throw error;
  }
}

function reading<T>(what: string, read: () => T): Reading<T> {
  try {
    return { value: read() };
  } catch (error) {
    return { unread: `${what}: ${reasonOf(error)}` };
  }
}
