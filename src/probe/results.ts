// SPDX-License-Identifier: Apache-2.0
// Answers of a probe, and the lines by which the probing process delivers them. Pure.
import { FEATURE_NAMES, type FeatureName } from './features.ts';

export type Answer = 'yes' | 'no' | 'could not tell';

export interface Result {
  readonly answer: Answer;
  /** Of yes: what was found, if there is more to say. Else why. */
  readonly reason: string;
}

export type Results = ReadonlyMap<FeatureName, Result>;

/** `begin` names the attempt that an end without an answer belongs to. */
export type ProbeLine =
  | { readonly begin: FeatureName }
  | ({ readonly feature: FeatureName } & Result);

export const lineText = (line: ProbeLine): string => JSON.stringify(line);

/** undefined: not a line of ours. */
export function parseLine(text: string): ProbeLine | undefined {
  if (!text.startsWith('{')) return undefined;
  const line = JSON.parse(text) as ProbeLine;
  const name = 'begin' in line ? line.begin : line.feature;
  return FEATURE_NAMES.includes(name) ? line : undefined;
}

const ANSWERED: Result = { answer: 'could not tell', reason: 'it was not tried' };

export const resultOf = (results: Results, feature: FeatureName): Result =>
  results.get(feature) ?? ANSWERED;

export const isYes = (results: Results, feature: FeatureName): boolean =>
  resultOf(results, feature).answer === 'yes';
