// SPDX-License-Identifier: Apache-2.0
// Why a write failed, as a code for programs and a reason for people.
import type { FailedEntry } from '../../dataplane.ts';

type Failure = Pick<FailedEntry, 'code' | 'map' | 'reason'>;

/** The --map-size name of a hash table; other sizes depend on these. */
const FLAG_OF: Readonly<Record<string, string>> = {
  fl_service: 'service-ports',
  fl_frontend4: 'frontends',
  fl_frontend6: 'frontends',
  fl_range: 'source-ranges',
};

export const fullText = (map: string, flag: string, capacity?: number): string =>
  `${fullMapText(map, flag, capacity)}; the old state stays in the kernel`;

export const fullMapText = (map: string, flag: string, capacity?: number): string =>
  `${map} is full${capacity === undefined ? '' : ` (${capacity} ${flag})`}: raise --map-size ${flag}=… or remove Services`;

/** Of a hash table; of a trie. */
const FULL: ReadonlySet<string> = new Set(['E2BIG', 'ENOSPC']);

/** @param errno name of the error with which the kernel refused the write */
export function writeFailure(
  map: string,
  errno: string,
  consequence = 'it will be retried',
): Failure {
  const flag = FLAG_OF[map];
  return FULL.has(errno) && flag !== undefined
    ? { code: 'MAP_FULL', map, reason: fullText(map, flag) }
    : { code: 'WRITE_FAILED', map, reason: `${map} refused it (${errno}): ${consequence}` };
}
