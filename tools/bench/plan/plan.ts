// SPDX-License-Identifier: Apache-2.0
// A run as a list of steps. Repetitions are interleaved: in each round all columns have their turn, in rotating order, so
// that what else the machine does hits all alike. Pure.
import { turns } from '../../lab/columns/turns.ts';
import type { ColumnName } from '../report/types.ts';
import type { RunSettings } from './settings.ts';

/**
 * grow: so many Services are there. turn: one column's proxy starts, with nothing programmed, follows changes, and keeps
 * running until its next turn. traffic: one round of all workloads and columns. roll: as turn, with the Service that is
 * rolled over.
 */
export type Step =
  | { readonly kind: 'grow'; readonly services: number }
  | { readonly kind: 'turn' | 'roll'; readonly services: number; readonly column: ColumnName }
  | { readonly kind: 'warm-up' | 'traffic'; readonly services: number; readonly round: number };

const hasProxy = (name: ColumnName): boolean => name !== 'none';

export function planOf(settings: RunSettings): readonly Step[] {
  const { services, columns, rollTurns } = settings;
  const proxies = columns.filter(hasProxy);
  const [first] = services;
  return services.flatMap((count) => [
    { kind: 'grow', services: count },
    ...(count === first ? interleaved('roll', count, proxies, rollTurns) : []),
    ...interleaved('turn', count, proxies, settings.turns),
    ...(settings.rounds > 0 ? trafficSteps(count, settings.rounds) : []),
  ]);
}

const interleaved = (
  kind: 'turn' | 'roll',
  services: number,
  proxies: readonly ColumnName[],
  count: number,
): Step[] =>
  Array.from({ length: count }, (_, round) => turns(proxies, round)).flatMap((round) =>
    round.map((column) => ({ kind, services, column })),
  );

const ROUNDS_KEPT = 3;

/** What may be left out of a run that would take too long: others still have their repetitions. */
export const isExpendable = (step: Step): boolean =>
  step.kind === 'traffic' && step.round > ROUNDS_KEPT;

/** The first round fills caches, neighbours and sockets; it does not count. */
const trafficSteps = (services: number, rounds: number): Step[] => [
  { kind: 'warm-up', services, round: 0 },
  ...Array.from(
    { length: rounds },
    (_, at): Step => ({ kind: 'traffic', services, round: at + 1 }),
  ),
];
