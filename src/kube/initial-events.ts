// SPDX-License-Identifier: Apache-2.0
// The events that a watch begins with when asked for everything as it is (KEP-3157), put aside until the
// mark that ends them: nobody sees half a list. Floor 4, but pure.
import { Ended } from './ended.ts';
import type { Sighting, WatchEvent } from './events.ts';
import type { KindSpec } from './kinds.ts';
import { keyOf } from './store.ts';
import { isOlder } from './versions.ts';

export class InitialEvents {
  readonly sightings = new Map<string, Sighting>();
  readonly #spec: KindSpec;
  #version = '';

  constructor(spec: KindSpec) {
    this.#spec = spec;
  }

  /** That of the mark: the events before it come in no order, and their versions mean nothing together. */
  get version(): string {
    return this.#version;
  }

  /** True if this was the mark: the list is complete. Throws Ended. */
  take(event: WatchEvent): boolean {
    if (event.type === 'ERROR') throw endOfStream(event);
    if (event.type === 'OTHER') return false;
    if (event.type === 'BOOKMARK') {
      if (!event.isInitialEnd) return false;
      if (event.version === '') throw new Ended('undecodable', 'a mark without resourceVersion');
      this.#version = event.version;
      return true;
    }
    const { sighting } = event;
    const key = keyOf(sighting.ref);
    const known = this.sightings.get(key);
    if (known !== undefined && isOlder(sighting.version, known.version)) return false;
    const isThere = event.type !== 'DELETED' && this.#spec.isWanted(sighting.object);
    if (isThere) this.sightings.set(key, sighting);
    else this.sightings.delete(key);
    return false;
  }
}

/** What an ERROR event says about the stream that it ends. */
export function endOfStream(event: Extract<WatchEvent, { type: 'ERROR' }>): Ended {
  const { code, message, retryAfterMs } = event;
  const reason = code === 410 ? 'expired' : 'status';
  return new Ended(reason, `${code}: ${message}`, { retryAfterMs });
}
