// SPDX-License-Identifier: Apache-2.0
// The events that a watch begins with when asked for everything as it is (KEP-3157), up to the mark that
// ends them.
import type { ObjectChange } from '../../../model/types.ts';
import type { WatchEvent } from '../decode/watch-events.ts';
import type { Listing } from './list.ts';
import { WatchError } from './watch-error.ts';

export class InitialEvents {
  readonly listing: Listing;
  #version = '';

  constructor(listing: Listing) {
    this.listing = listing;
  }

  /** That of the mark: the events before it come in no order, and their versions mean nothing together. */
  get version(): string {
    return this.#version;
  }

  /** True if this was the mark: the list is complete. `changes` gets what may go out before. Throws WatchError. */
  take(event: WatchEvent, changes: ObjectChange[]): boolean {
    if (event.type === 'ERROR') throw errorOfEvent(event);
    if (event.type === 'OTHER') return false;
    if (event.type === 'BOOKMARK') {
      if (!event.isInitialEnd) return false;
      if (event.version === '')
        throw new WatchError(
          'undecodable',
          'the bookmark after the initial events has no resourceVersion',
        );
      this.#version = event.version;
      return true;
    }
    const change = this.listing.take(event.observed, event.type !== 'DELETED');
    if (change !== undefined) changes.push(change);
    return false;
  }
}

/** What an ERROR event says about the stream that it ends. */
export function errorOfEvent(event: Extract<WatchEvent, { type: 'ERROR' }>): WatchError {
  const { code, message, retryAfterMs } = event;
  const reason = code === 410 ? 'expired' : 'status';
  return new WatchError(reason, `${code}: ${message}`, { retryAfterMs });
}
