// SPDX-License-Identifier: Apache-2.0
// The next step from one engine to the other. Pure. The new one has programmed everything before the old one stops to
// serve, and the old one goes when its last connection has ended. Each step can be taken again, so that an agent that
// was killed between two of them is continued by the next one.
import type { PredecessorFacts } from '../../engines/predecessor.ts';

export type Step = 'wait' | 'stop serving' | 'remove' | 'keep' | 'done';

/** @param isComplete every Service is programmed by the engine of this agent */
export function nextStep(isComplete: boolean, facts: PredecessorFacts): Step {
  if (!facts.isLeft) return 'done';
  if (!isComplete) return 'wait';
  if (facts.isServing) return 'stop serving';
  return facts.connections === 0 ? 'remove' : 'keep';
}
