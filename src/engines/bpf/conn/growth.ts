// SPDX-License-Identifier: Apache-2.0
// When the table of connections is to be made larger. It begins small, and grows as connections come, up to what
// --map-size flows=… allows.
import type { Occupancy } from './counts.ts';

/** Connections of each family that the table is made for at first. */
export const FIRST_CONNECTIONS = 65_536;
/** The most, if --map-size does not say. */
export const MOST_CONNECTIONS = 1_048_576;
/** So that a table which fills fast grows seldom. */
const FACTOR = 4;
/** Of what it is made for: while it grows, others begin. */
const CROWDED = 1 / 2;
/** Half-open ones alone have at most half: three of seven slots. */
const CROWDED_IN_ALL = 3 / 4;
/** Of what it is made for, half-open: with more, a bucket is found whose three slots of the share are taken. */
const CROWDED_HALF_OPEN = 1 / 4;
/** A flood of half-open connections makes it grow to this part of the limit. */
const HALF_OPEN_PART = 1 / 4;

/**
 * @param connections that the table is made for now
 * @param limit the most that it may be made for
 * @returns what it is to be made for; the same: it is large enough, or as large as it may be
 */
export function grownTo({ used, halfOpen }: Occupancy, connections: number, limit: number): number {
  const isCrowded =
    used - halfOpen >= CROWDED * connections || used >= CROWDED_IN_ALL * connections;
  const bound = isCrowded ? limit : limit * HALF_OPEN_PART;
  if (!isCrowded && halfOpen < CROWDED_HALF_OPEN * connections) return connections;
  return Math.max(connections, Math.min(FACTOR * connections, Math.floor(bound)));
}

/**
 * @param left what the table was made for that an earlier agent has left
 * @returns what the table of the next one is made for at first
 */
export const firstConnections = (left: number, limit: number): number =>
  Math.min(limit, Math.max(left, FIRST_CONNECTIONS));
