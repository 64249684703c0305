// SPDX-License-Identifier: Apache-2.0
// ServiceCIDR object (networking.k8s.io/v1, KEP-1880) -> its prefixes.
import { canonicalPrefix } from '../../lib/ip.ts';
import { isRecord, shown } from '../../lib/json.ts';
import { readList, readRecord } from '../fields.ts';
import { collectRejections } from '../rejection-collector.ts';
import type { ObjectRef, Projection } from '../types.ts';

/** Canonical prefixes in the order of the object. Never throws. */
export function projectServiceCidr(ref: ObjectRef, object: unknown): Projection<readonly string[]> {
  const { reject, rejections } = collectRejections(ref);
  if (!isRecord(object)) {
    return { value: reject('', `must be an object, not ${shown(object)}`), rejections };
  }
  const spec = readRecord(object['spec'], 'spec', reject);
  const prefixes: string[] = [];
  for (const [index, text] of readList(spec?.['cidrs'], 'spec.cidrs', reject).entries()) {
    const prefix = typeof text === 'string' ? canonicalPrefix(text) : undefined;
    if (prefix !== undefined) prefixes.push(prefix);
    else
      reject(`spec.cidrs[${index}]`, `must be a prefix such as 10.96.0.0/16, not ${shown(text)}`);
  }
  return { value: prefixes, rejections };
}
