// SPDX-License-Identifier: Apache-2.0
// One list while it comes in. Later lists wait until they are complete, because only then can be said what
// they mean; what they show unchanged is not kept in full. The very first list of a kind goes out object by
// object: it can take nothing away, and until it is complete, and believed, nobody acts on what it has
// shown (see InitialSync). So a whole cluster is never held at once.
import type { ObjectChange } from '../../../model/types.ts';
import type { ObservedObject } from '../decode/watch-events.ts';
import type { KindSpec } from '../kinds.ts';
import { type Known, keyOf, type Store } from './store.ts';
import { isOlder } from './versions.ts';

export class Listing {
  readonly #store: Store;
  readonly #spec: KindSpec;
  readonly #isDoubted: boolean;
  /** Undefined for a first list: all that it has shown is in the store, and nothing else is. */
  readonly #shown: Map<string, Known | ObservedObject> | undefined;

  /** `isDoubted`: the server may be another or an older one, where equal versions prove nothing. */
  constructor(store: Store, spec: KindSpec, isDoubted: boolean) {
    // If an earlier first list broke half-way, this one is compared with what that one has shown.
    const isFirst = store.version === '' && store.size === 0;
    this.#store = store;
    this.#spec = spec;
    this.#isDoubted = isDoubted;
    this.#shown = isFirst ? undefined : new Map();
  }

  /** By key, each as it was shown last; `Known` for what is as the store knows it. */
  get objects(): ReadonlyMap<string, Known | ObservedObject> {
    return this.#shown ?? this.#store.known;
  }

  /** The change that may go out before the list is complete, if there is one. */
  take(observed: ObservedObject, isPut: boolean): ObjectChange | undefined {
    const last = this.objects.get(keyOf(observed.ref));
    if (last !== undefined && isOlder(observed.version, last.version)) return undefined;
    const isThere = isPut && this.#spec.isWanted(observed.object);
    if (this.#shown === undefined) {
      return isThere ? this.#store.put(observed) : this.#store.remove(observed.ref);
    }
    this.#keep(this.#shown, observed, isThere);
    return undefined;
  }

  #keep(
    shown: Map<string, Known | ObservedObject>,
    observed: ObservedObject,
    isThere: boolean,
  ): void {
    const key = keyOf(observed.ref);
    const known = this.#isDoubted ? undefined : this.#store.unchanged(observed);
    if (isThere) shown.set(key, known ?? observed);
    else shown.delete(key);
  }
}
