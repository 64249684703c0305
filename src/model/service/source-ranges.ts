// SPDX-License-Identifier: Apache-2.0
// spec.loadBalancerSourceRanges -> the prefixes of each family, as kube-proxy reads them
// (newBaseServiceInfo): blanks cut off; a zero prefix opens its family; entries of one family alone do not close
// the other. Stricter in one point: a list with a bad entry never opens what a good one would close.
import { canonicalPrefix, familyOf, isZeroPrefix } from '../../lib/ip.ts';
import { isAbsent, shown } from '../../lib/json.ts';
import { compareText } from '../../lib/names.ts';
import { readList } from '../fields.ts';
import type { Reject } from '../rejection-collector.ts';
import type { PerFamily } from '../types.ts';

const EVERYONE: PerFamily<undefined> = Object.freeze({ IPv4: undefined, IPv6: undefined });
const FIELD = 'spec.loadBalancerSourceRanges';

/** Sorted canonical prefixes; undefined = everyone; empty = no one, as nothing given could be read. */
export function readSourceRanges(
  value: unknown,
  reject: Reject,
): PerFamily<readonly string[] | undefined> {
  if (isAbsent(value)) return EVERYONE;
  const prefixes = new Set<string>();
  let isAnyRejected = false;
  for (const [index, text] of readList(value, FIELD, reject).entries()) {
    const prefix = typeof text === 'string' ? canonicalPrefix(text.trim()) : undefined;
    if (prefix === undefined) {
      reject(`${FIELD}[${index}]`, `must be a prefix such as 192.0.2.0/24, not ${shown(text)}`);
      isAnyRejected = true;
    } else {
      prefixes.add(prefix);
    }
  }
  const all = [...prefixes].sort(compareText);
  const ofFamily = (family: 'IPv4' | 'IPv6'): readonly string[] | undefined => {
    const own = all.filter((prefix) => familyOf(prefix) === family);
    if (own.some(isZeroPrefix)) return undefined;
    return own.length > 0 || isAnyRejected ? own : undefined;
  };
  return { IPv4: ofFamily('IPv4'), IPv6: ofFamily('IPv6') };
}
