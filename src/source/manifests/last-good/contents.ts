// SPDX-License-Identifier: Apache-2.0
// From a store to the objects in it that count, and back: a store as it was when the agent ended.
import { refText } from '../../../model/object-ref.ts';
import type { ObjectChange } from '../../../model/types.ts';
import { type ManifestStore, putOf } from '../manifest-store.ts';
import type { Manifest } from '../parse.ts';
import type { CountedObject, Recalled } from './format.ts';

/** As of now: what is delivered while the list is in use is not in it. Copies in further files come last. */
export function countedIn({
  delivered,
  copies,
  counting,
}: ManifestStore): readonly CountedObject[] {
  const counted: CountedObject[] = [];
  for (const [key, { file, object: latest }] of delivered) {
    const object = counting.of(key, latest);
    if (object !== undefined) counted.push({ file, object });
  }
  for (const { file, object } of copies) counted.push({ file, object });
  return counted;
}

/** Fills an empty store: what is recalled counts until it is judged. @returns what is to be delivered of it */
export function fill(store: ManifestStore, recalled: readonly Recalled[]): readonly ObjectChange[] {
  const files = new Map<string, Manifest[]>();
  for (const { file, manifest } of recalled) {
    const key = refText(manifest.ref);
    if (!store.delivered.has(key)) {
      store.delivered.set(key, { ...manifest, file });
      store.counting.delivered(key, manifest.object);
    }
    const others = files.get(file);
    if (others === undefined) files.set(file, [manifest]);
    else others.push(manifest);
  }
  for (const [file, manifests] of files) {
    store.files.set(file, {
      ...{ manifests, problems: [], judged: undefined },
      findLine: () => undefined,
    });
  }
  return [...store.delivered.values()].map(putOf);
}
