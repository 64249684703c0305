// SPDX-License-Identifier: Apache-2.0
// The objects as kube-proxy sees them: without annotations that only fairlead reads.
import type { ObjectChange } from '../model/types.ts';

const OWN = 'fairlead.io/';

/** @returns the same list if none has any */
export function withoutOwnAnnotations(changes: readonly ObjectChange[]): readonly ObjectChange[] {
  const plain = changes.map((change): ObjectChange => {
    if (change.type !== 'put') return change;
    const object = withoutOwn(change.object);
    return object === change.object ? change : { ...change, object };
  });
  return plain.every((change, index) => change === changes[index]) ? changes : plain;
}

type Json = Readonly<Record<string, unknown>>;
const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** @returns the same object if it has none */
function withoutOwn(object: unknown): unknown {
  if (!isRecord(object) || !isRecord(object['metadata'])) return object;
  const { annotations, ...metadata } = object['metadata'];
  if (!isRecord(annotations)) return object;
  const all = Object.entries(annotations);
  const others = all.filter(([name]) => !name.startsWith(OWN));
  if (others.length === all.length) return object;
  return { ...object, metadata: { ...metadata, annotations: Object.fromEntries(others) } };
}
