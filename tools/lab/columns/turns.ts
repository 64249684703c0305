// SPDX-License-Identifier: Apache-2.0
// Every column has its turn in every round, so that what else the machine does hits all alike. The order rotates: none is
// always the one after the most expensive. Pure.

/** Which column comes when in a round. */
export function turns<T>(columns: readonly T[], round: number): readonly T[] {
  const first = columns.length === 0 ? 0 : round % columns.length;
  return [...columns.slice(first), ...columns.slice(0, first)];
}
