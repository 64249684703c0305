// SPDX-License-Identifier: Apache-2.0
// The weights of a slice's endpoints, from its annotation `fairlead.io/weights`.
//   `10.1.1.5=3, 10.1.1.6=0, *=10`: 3 and 0, and 10 for all other addresses of the slice
import { canonicalAddress } from '../../lib/ip.ts';
import { type JsonRecord, shown } from '../../lib/json.ts';
import { ANNOTATIONS } from '../annotations.ts';
import { annotationField, readAnnotation } from '../fields.ts';
import type { Reject } from '../rejection-collector.ts';

/** As in IPVS. */
const LARGEST_WEIGHT = 65_535;
const USUAL_WEIGHT = 1;
/** Every address that is not listed. */
const OTHERS = '*';

/**
 * One for each address; undefined = all have the usual one. A bad entry is rejected alone, an address that is not in
 * the slice is named.
 */
export function readWeights(
  object: JsonRecord,
  addresses: readonly string[],
  reject: Reject,
): readonly number[] | undefined {
  const text = readAnnotation(object, ANNOTATIONS.weights.name, reject);
  if (text === undefined) return undefined;
  const listed = readEntries(text, reject);
  const known = new Set(addresses);
  for (const address of listed.keys()) {
    if (address === OTHERS || known.has(address)) continue;
    reject(annotationField(ANNOTATIONS.weights.name), `${address} is no endpoint of this slice`);
  }
  const others = listed.get(OTHERS) ?? USUAL_WEIGHT;
  const weights = addresses.map((address) => listed.get(address) ?? others);
  return weights.every((weight) => weight === USUAL_WEIGHT) ? undefined : weights;
}

function readEntries(text: string, reject: Reject): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  const field = annotationField(ANNOTATIONS.weights.name);
  for (const entry of text.split(/[\s,]+/).filter((part) => part !== '')) {
    const [, name = '', weight = ''] = /^([^=]+)=(\d{1,5})$/.exec(entry) ?? [];
    const address = name === OTHERS ? OTHERS : canonicalAddress(name);
    if (address === undefined || Number(weight) > LARGEST_WEIGHT) {
      reject(
        field,
        `${shown(entry)} must be an IP address or *, then = and a weight from 0 to ${LARGEST_WEIGHT}`,
      );
    } else if (found.has(address)) {
      reject(field, `${address} is listed twice: its first weight, ${found.get(address)}, counts`);
    } else {
      found.set(address, Number(weight));
    }
  }
  return found;
}
