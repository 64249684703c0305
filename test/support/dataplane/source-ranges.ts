// SPDX-License-Identifier: Apache-2.0
// fl_range as the programs read it (bpf/common/frontend.h), over any tables.
import {
  decodeRangeKey,
  type FrontendValue,
  RANGE_KIND,
  type RuleValue,
  rangeFamily,
  type SourceRangeKey,
} from '../../../src/engines/bpf/layout/layout.ts';
import { readRun } from '../../../src/engines/bpf/rows/service-port/runs.ts';
import type { Tables } from '../../../src/engines/bpf/state/tables.ts';
import { familyOf, prefixContains } from '../../../src/lib/ip.ts';

/** Every element, as `1 198.51.100.0/24`. */
export const rangesIn = (tables: Tables): readonly string[] =>
  readRanges(tables)
    .map(({ serviceId, prefix }) => `${serviceId} ${prefix}`)
    .sort();

const readRanges = ({ sourceRange }: Tables): readonly (SourceRangeKey & { kind: number })[] =>
  sourceRange.readAll().map(({ key, value }) => ({
    ...decodeRangeKey(key, rangeFamily(value)),
    kind: value[0] ?? 0,
  }));

/** The longest one that contains it decides. */
function isInRange(tables: Tables, source: string, asked: SourceRangeKey['serviceId']): boolean {
  const [longest] = readRanges(tables)
    .filter(
      ({ serviceId, prefix }) =>
        serviceId === asked &&
        familyOf(prefix) === familyOf(source) &&
        prefixContains(prefix, source),
    )
    .sort((a, b) => lengthOf(b.prefix) - lengthOf(a.prefix));
  return longest?.kind === (asked === 0 ? RANGE_KIND.pod : RANGE_KIND.allowed);
}

const lengthOf = (prefix: string): number => Number(prefix.slice(prefix.indexOf('/') + 1));

export const isPod = (tables: Tables, source: string): boolean => isInRange(tables, source, 0);

/** Whether a client of the rule's position may use the frontend. */
export function admits(
  tables: Tables,
  frontend: FrontendValue,
  rule: RuleValue,
  source: string,
): boolean {
  if (!rule.hasSourceRanges) return true;
  const [ofRun = 0] = rule.members === 0 ? [] : readRun(tables.slotBlock, rule.block, 0);
  return isInRange(tables, source, rule.members === 0 ? frontend.serviceId : ofRun);
}
