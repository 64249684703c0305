// SPDX-License-Identifier: Apache-2.0
// When the first sync may begin: kube-proxy waits for complete Services and EndpointSlices, and up to
// 30 s for the own Node, without which it goes on (cmd/kube-proxy/app/server.go).
import type { Kind } from '../../../model/types.ts';
import type { Clock } from '../clock.ts';
import { LIMITS } from '../limits.ts';

export class SyncGate {
  readonly #onOpen: () => void;
  readonly #missing = new Set<Kind>(['Service', 'EndpointSlice', 'Node']);
  readonly #cancel: () => void;
  #isOpen = false;

  /** `onOpen` is called once, at the latest `LIMITS.nodeWaitMs` from now if only the Node is missing. */
  constructor(clock: Clock, onOpen: () => void) {
    this.#onOpen = onOpen;
    this.#cancel = clock.after(LIMITS.nodeWaitMs, () => this.#settle('Node'));
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** A complete list was delivered. That of Nodes says nothing: the Node may be missing from it. */
  listed(kind: Kind): void {
    if (kind !== 'Node') this.#settle(kind);
  }

  nodeSeen(): void {
    this.#settle('Node');
  }

  close(): void {
    this.#cancel();
  }

  #settle(kind: Kind): void {
    this.#missing.delete(kind);
    if (this.#missing.size > 0 || this.#isOpen) return;
    this.#isOpen = true;
    this.#cancel();
    this.#onOpen();
  }
}
