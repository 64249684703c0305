// SPDX-License-Identifier: Apache-2.0
// The balancing algorithms: how each chooses a backend of a set. What a dataplane makes of them is its own affair.
import type { Algorithm } from '../../model/types.ts';
import type { LookupAlgorithm } from '../lookup-table.ts';
import { MAGLEV } from '../maglev/maglev.ts';
import type { Backend, ClientPosition, Frontend, ServicePortPlan } from '../types.ts';

export interface Balancing {
  /** A backend's share follows its weight; with the others only weight 0 counts. */
  readonly isWeighing: boolean;
  /** In words. */
  readonly choice: string;
  /** An entry of a table decides. */
  readonly lookup?: LookupAlgorithm;
}

/** In the order in which people see them. */
export const BALANCING: Readonly<Record<Algorithm, Balancing>> = {
  random: { isWeighing: false, choice: 'each connection gets one at random' },
  'weighted-random': { isWeighing: true, choice: 'each connection gets one at random' },
  'round-robin': { isWeighing: false, choice: 'each connection gets the next one' },
  'weighted-round-robin': { isWeighing: true, choice: 'each connection gets the next one' },
  'least-connections': {
    isWeighing: false,
    choice:
      'each connection gets the one with the fewest of this node now, of more than 8 one of two at random',
  },
  'weighted-least-connections': {
    isWeighing: true,
    choice:
      'each connection gets the one with the fewest of this node now, of more than 8 one of two at random',
  },
  'source-hash': {
    isWeighing: true,
    choice:
      'each client gets the one that a hash of its address names, as long as the set is the same',
  },
  maglev: {
    isWeighing: true,
    choice: 'each connection gets the one that a hash of it names, on every node the same',
    lookup: MAGLEV,
  },
};

export const ALGORITHM_NAMES = Object.keys(BALANCING) as [Algorithm, ...Algorithm[]];
/** Of an algorithm with a lookup table. */
export const lookupOf = (algorithm: Algorithm): LookupAlgorithm | undefined =>
  BALANCING[algorithm].lookup;
export const LOOKUP_NAMES = ALGORITHM_NAMES.filter((name) => lookupOf(name) !== undefined);
export const WEIGHING_NAMES = ALGORITHM_NAMES.filter((name) => BALANCING[name].isWeighing);

export const algorithmOf = ({ algorithm }: Pick<ServicePortPlan, 'algorithm'>): Algorithm =>
  algorithm ?? 'random';

/** How one client's connections to a frontend are spread. */
export const algorithmFor = (
  port: Pick<ServicePortPlan, 'algorithm' | 'externalAlgorithm'>,
  { kind }: Pick<Frontend, 'kind'>,
  position: ClientPosition,
): Algorithm =>
  position === 'outside' && kind !== 'ClusterIP'
    ? (port.externalAlgorithm ?? algorithmOf(port))
    : algorithmOf(port);

/** By which the algorithm chooses among the backends of a set: equal for one that does not weigh. */
export const weightFor =
  (algorithm: Algorithm) =>
  ({ weight = 1 }: Pick<Backend, 'weight'>): number =>
    BALANCING[algorithm].isWeighing ? weight : 1;
