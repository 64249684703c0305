// SPDX-License-Identifier: Apache-2.0
// The query strings of watches, as client-go writes them.
import type { Clock } from '../../../lib/clock.ts';
import type { KindSpec } from '../kinds.ts';
import { LIMITS } from '../limits.ts';

/** `&labelSelector=..&fieldSelector=..`; '' for a kind without any. */
export function selectorQuery(spec: KindSpec, usesFieldSelector: boolean): string {
  const { labelSelector, fieldSelector } = spec;
  const label = labelSelector === '' ? '' : `&labelSelector=${encodeURIComponent(labelSelector)}`;
  if (!usesFieldSelector || fieldSelector === '') return label;
  return `${label}&fieldSelector=${encodeURIComponent(fieldSelector)}`;
}

/** Everything as it is, then everything that happens (KEP-3157): read from the quorum, without a version. */
export function watchListQuery(clock: Clock): string {
  return `?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan${common(clock)}`;
}

/** Everything that happens after a version. */
export function watchQuery(version: string, clock: Clock): string {
  return `?watch=true&resourceVersion=${encodeURIComponent(version)}${common(clock)}`;
}

/** The server ends the watch; at random, so that a restarted server does not see all nodes at once again. */
function common(clock: Clock): string {
  const range = LIMITS.watchLifeMaxSeconds - LIMITS.watchLifeMinSeconds;
  const seconds = LIMITS.watchLifeMinSeconds + Math.floor(range * clock.random());
  return `&allowWatchBookmarks=true&timeoutSeconds=${seconds}`;
}
