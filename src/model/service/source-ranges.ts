// SPDX-License-Identifier: Apache-2.0
// Who may use a Service: spec.loadBalancerSourceRanges as kube-proxy reads them (newBaseServiceInfo: blanks cut off; a
// zero prefix contains its family; entries of one family say nothing of the other), or the annotations
// `fairlead.io/source-ranges`, `-policy` and `-scope`. Stricter in one point: what cannot be read never opens what
// its right form would close.
import { canonicalPrefix, familyOf, isZeroPrefix } from '../../lib/ip.ts';
import { isAbsent, type JsonRecord, shown } from '../../lib/json.ts';
import { compareText } from '../../lib/names.ts';
import { ANNOTATIONS, type Choice } from '../annotations.ts';
import { annotationField, readList } from '../fields.ts';
import type { Reject } from '../rejection-collector.ts';
import type { Family, PerFamily, Service, SourceFilter } from '../types.ts';
import { rawAnnotation } from './exposure.ts';

const EVERYONE: PerFamily<undefined> = Object.freeze({ IPv4: undefined, IPv6: undefined });
const NOBODY: SourceFilter = Object.freeze({ policy: 'allow', ranges: [] });
const FIELD = 'spec.loadBalancerSourceRanges';

/** @param field spec.loadBalancerSourceRanges, which the annotation with ranges replaces */
export function readSources(
  object: JsonRecord,
  field: unknown,
  reject: Reject,
): Pick<Service, 'sources' | 'filtersAll'> {
  const annotation = rawAnnotation(object, ANNOTATIONS.ranges.name);
  const hasOwn = annotation !== undefined;
  const policy = readChoiceOr(object, ANNOTATIONS.policy, reject);
  const scope = readChoiceOr(object, ANNOTATIONS.scope, reject);
  const given = hasOwn
    ? readPrefixes(listIn(annotation), () => annotationField(ANNOTATIONS.ranges.name), reject)
    : readPrefixes(
        isAbsent(field) ? undefined : readList(field, FIELD, reject),
        fieldEntry,
        reject,
      );
  if (given === undefined) return { sources: EVERYONE };
  const isSaid = scope !== undefined || hasOwn;
  const sources = {
    IPv4: filterOf(given, policy, { family: 'IPv4', hasOwn }),
    IPv6: filterOf(given, policy, { family: 'IPv6', hasOwn }),
  };
  return { sources, ...(isSaid && { filtersAll: scope !== 'LoadBalancer' }) };
}

/** Entries that are separated by commas; what is no text is one bad entry. */
const listIn = (value: unknown): readonly unknown[] =>
  typeof value === 'string' ? value.split(',') : [value];

const fieldEntry = (index: number): string => `${FIELD}[${index}]`;

interface Prefixes {
  /** Canonical and sorted. */
  readonly all: readonly string[];
  readonly isAnyRejected: boolean;
}

function readPrefixes(
  entries: readonly unknown[] | undefined,
  fieldOf: (index: number) => string,
  reject: Reject,
): Prefixes | undefined {
  if (entries === undefined) return undefined;
  const prefixes = new Set<string>();
  let isAnyRejected = false;
  for (const [index, text] of entries.entries()) {
    const prefix = typeof text === 'string' ? canonicalPrefix(text.trim()) : undefined;
    if (prefix === undefined) {
      reject(fieldOf(index), `must be a prefix such as 192.0.2.0/24, not ${shown(text)}`);
      isAnyRejected = true;
    } else {
      prefixes.add(prefix);
    }
  }
  return { all: [...prefixes].sort(compareText), isAnyRejected };
}

type Policy = SourceFilter['policy'];

/**
 * A bad entry of ranges that deny, or a policy that cannot be read, may have meant anyone. Ranges of the annotation that
 * allow name everybody who may: a family that they do not have is closed.
 */
function filterOf(
  { all, isAnyRejected }: Prefixes,
  policy: Policy | 'unknown' | undefined,
  { family, hasOwn }: { readonly family: Family; readonly hasOwn: boolean },
): SourceFilter | undefined {
  const ranges = all.filter((prefix) => familyOf(prefix) === family);
  const isClosed = hasOwn && policy !== 'deny' && all.length > 0;
  if (ranges.length === 0 && !isAnyRejected) return isClosed ? NOBODY : undefined;
  if (policy === 'unknown' || (policy === 'deny' && isAnyRejected)) return NOBODY;
  const isZero = ranges.some(isZeroPrefix);
  if (policy === 'deny') return isZero ? NOBODY : { policy, ranges };
  return isZero ? undefined : { policy: 'allow', ranges };
}

/** `unknown`, with a rejection, if it is none of the values. */
function readChoiceOr<T extends string>(
  object: JsonRecord,
  { name, values, instead }: Choice<T>,
  reject: Reject,
): T | 'unknown' | undefined {
  const value = rawAnnotation(object, name);
  if (value === undefined) return undefined;
  const found = values.find((one) => typeof value === 'string' && one === value.trim());
  if (found !== undefined) return found;
  reject(annotationField(name), `must be ${values.join(' or ')}, not ${shown(value)}`, instead);
  return 'unknown';
}
