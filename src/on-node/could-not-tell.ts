// SPDX-License-Identifier: Apache-2.0
// The finding of a reader that has failed. Pure.
import type { Finding, Topic } from './finding.ts';

export const couldNotTell = (
  topic: Topic,
  reason: string,
  more: Partial<Pick<Finding, 'consequence' | 'advice'>> = {},
): Finding => ({
  topic,
  what: `could not tell: ${reason}`,
  consequence: 'what is there, and what it does to Services, is not known',
  ...more,
  breaksServices: false,
});
