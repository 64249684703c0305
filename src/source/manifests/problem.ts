// SPDX-License-Identifier: Apache-2.0
// What can be wrong with a file of manifests, as a value people can act on.
import type { ObjectRef } from '../../model/types.ts';

export interface ManifestProblem {
  /** Path as a person would open it. */
  readonly file: string;
  /** 1-based; absent if the file as a whole is meant. */
  readonly line?: number;
  readonly reason: string;
  /** The object that is meant, if one could be named. */
  readonly object?: ObjectRef;
  /** Nothing is rejected: the object is served without it. */
  readonly isWarning?: boolean;
}

/** `web.yaml:12: reason`, as compilers print it. */
export function problemText(problem: ManifestProblem): string {
  const place = problem.line === undefined ? problem.file : `${problem.file}:${problem.line}`;
  return `${place}: ${problem.reason}`;
}
