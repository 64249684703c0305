// SPDX-License-Identifier: Apache-2.0
// When the first sync may begin: kube-proxy waits for complete Services and EndpointSlices, and up to
// 30 s for this node's Node, without which it goes on (cmd/kube-proxy/app/server.go).

import type { Clock } from '../../../lib/clock.ts';
import type { Kind } from '../../../model/types.ts';
import { LIMITS } from '../limits.ts';

export class InitialSync {
  readonly #onComplete: () => void;
  readonly #missing = new Set<Kind>(['Service', 'EndpointSlice', 'Node']);
  readonly #cancel: () => void;
  #isComplete = false;

  /** `onComplete` is called once, at the latest `LIMITS.nodeWaitMs` from now if only the Node is missing. */
  constructor(clock: Clock, onComplete: () => void) {
    this.#onComplete = onComplete;
    this.#cancel = clock.after(LIMITS.nodeWaitMs, () => this.#finish('Node'));
  }

  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** A complete list was delivered. That of Nodes says nothing: the Node may be missing from it. */
  listed(kind: Kind): void {
    if (kind !== 'Node') this.#finish(kind);
  }

  nodeSeen(): void {
    this.#finish('Node');
  }

  close(): void {
    this.#cancel();
  }

  #finish(kind: Kind): void {
    this.#missing.delete(kind);
    if (this.#missing.size > 0 || this.#isComplete) return;
    this.#isComplete = true;
    this.#cancel();
    this.#onComplete();
  }
}
