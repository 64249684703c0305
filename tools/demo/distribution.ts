// SPDX-License-Identifier: Apache-2.0
// Whether a load was distributed evenly: a table row per backend, and a test with few false positives.

import type { Tally } from '../lab/client/protocol.ts';
import { chiSquareOfEven } from './chi-square.ts';

export interface BackendName {
  /** `10.1.1.11:8080` */
  readonly address: string;
  /** The pod's name, with which its server answers. */
  readonly pod: string;
}

export interface ShareRow extends BackendName {
  readonly hits: number;
  /** 0..1 */
  readonly share: number;
  readonly expectedHits: number;
  /** Three standard deviations of a fair choice, in hits. */
  readonly threeSigmaHits: number;
  readonly isInside: boolean;
}

export interface Distribution {
  readonly rows: readonly ShareRow[];
  readonly answered: number;
  readonly failures: number;
  /** Names that answered but are not backends of the Service: always an error. */
  readonly unknownServers: readonly string[];
  readonly chiSquare: number;
  readonly degreesOfFreedom: number;
  readonly pValue: number;
  /** No failure, no unknown backend, and the p-value is above the threshold. */
  readonly isEven: boolean;
}

/**
 * Threshold of the p-value, which each demo compares three to six times. A single row outside 3 sigma is not a failure:
 * with 16 rows it happens in one run of 24.
 */
const IMPOSSIBLE_P = 1e-8;

/** Judges one sample against an even choice among `backends`. */
export function judgeDistribution(tally: Tally, backends: readonly BackendName[]): Distribution {
  const counts = backends.map(({ pod }) => tally.hits[pod] ?? 0);
  const answered = counts.reduce((sum, count) => sum + count, 0);
  const p = 1 / backends.length;
  const expectedHits = answered * p;
  const threeSigmaHits = 3 * Math.sqrt(answered * p * (1 - p));
  const rows = backends.map((backend, index) => {
    const hits = counts[index] ?? 0;
    const isInside = Math.abs(hits - expectedHits) <= threeSigmaHits;
    const share = answered === 0 ? 0 : hits / answered;
    return { ...backend, hits, share, expectedHits, threeSigmaHits, isInside };
  });
  const failures = Object.values(tally.failures).reduce((sum, count) => sum + count, 0);
  const pods = new Set(backends.map(({ pod }) => pod));
  const unknownServers = Object.keys(tally.hits).filter((name) => !pods.has(name));
  const { statistic, degreesOfFreedom, pValue } = chiSquareOfEven(counts);
  const isSound = answered > 0 && failures === 0 && unknownServers.length === 0;
  return {
    ...{ rows, answered, failures, unknownServers, degreesOfFreedom, pValue },
    chiSquare: statistic,
    isEven: isSound && pValue >= IMPOSSIBLE_P,
  };
}
