// SPDX-License-Identifier: Apache-2.0
// One list while it comes in. Later lists wait until they are complete, because only then can be said what
// they mean; what they show unchanged is not kept in full. The very first list of a kind goes out object by
// object: it can take nothing away, and until it is complete, and believed, nobody acts on what it has
// shown (see SyncGate). So a whole cluster is never held at once.
import type { ObjectChange } from '../../../model/types.ts';
import type { Sighting } from '../decode/watch-events.ts';
import type { KindSpec } from '../kinds.ts';
import { type Known, keyOf, type Store } from './store.ts';
import { isOlder } from './versions.ts';

export class Listing {
  readonly #store: Store;
  readonly #spec: KindSpec;
  readonly #isDoubted: boolean;
  /** Undefined for a first list: all that it has shown is in the store, and nothing else is. */
  readonly #shown: Map<string, Known | Sighting> | undefined;

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
  get sightings(): ReadonlyMap<string, Known | Sighting> {
    return this.#shown ?? this.#store.known;
  }

  /** The change that may go out before the list is complete, if there is one. */
  take(sighting: Sighting, isPut: boolean): ObjectChange | undefined {
    const last = this.sightings.get(keyOf(sighting.ref));
    if (last !== undefined && isOlder(sighting.version, last.version)) return undefined;
    const isThere = isPut && this.#spec.isWanted(sighting.object);
    if (this.#shown === undefined) {
      return isThere ? this.#store.put(sighting) : this.#store.remove(sighting.ref);
    }
    this.#keep(this.#shown, sighting, isThere);
    return undefined;
  }

  #keep(shown: Map<string, Known | Sighting>, sighting: Sighting, isThere: boolean): void {
    const key = keyOf(sighting.ref);
    const known = this.#isDoubted ? undefined : this.#store.unchanged(sighting);
    if (isThere) shown.set(key, known ?? sighting);
    else shown.delete(key);
  }
}
