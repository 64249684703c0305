// SPDX-License-Identifier: Apache-2.0
// Source ranges. What they do not accept is dropped before it is translated: see firewall-check in shared.ts.
import type { Family, SourceFilter } from '../../../model/types.ts';
import { IP, joinRules, prefixText } from './match.ts';

/** A rule for each range: nft merges those of a set, and would print other ranges than it was given. */
export function rangeRules({ policy, ranges }: SourceFilter, family: Family): string {
  const matching = (verdict: string): readonly string[] =>
    ranges.map((prefix) => `${IP[family]} saddr ${prefixText(prefix)} ${verdict}`);
  return joinRules(policy === 'deny' ? matching('drop') : [...matching('return'), 'drop']);
}
