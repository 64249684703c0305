// SPDX-License-Identifier: Apache-2.0
// The API server URLs in order of preference, and which one is in use. One that fails makes way for the
// next; all kinds share one ring, so that one failure seen four times rotates once.

export interface ServerUrl {
  /** Scheme, host, port, and a path prefix if there is one; no slash at the end. */
  readonly url: string;
  /** The name its certificate must carry, where the URL's host is not it. */
  readonly tlsName: string | undefined;
}

/** In the certificate of every kube-apiserver, whatever address it is reached at. */
export const IN_CLUSTER_NAME = 'kubernetes.default.svc';

export class Servers {
  readonly #configured: readonly ServerUrl[];
  #ring: readonly ServerUrl[];
  #current = 0;
  #rotations = 0;

  /** @param configured at least one */
  constructor(configured: readonly ServerUrl[]) {
    this.#configured = configured;
    this.#ring = configured;
  }

  current(): ServerUrl {
    const server = this.#ring[this.#current];
    if (server === undefined) throw new RangeError('no API server URL');
    return server;
  }

  get rotations(): number {
    return this.#rotations;
  }

  all(): readonly ServerUrl[] {
    return this.#ring;
  }

  /** The next one is used from now on, if this one still was. */
  failed(server: ServerUrl): void {
    if (server.url !== this.current().url || this.#ring.length === 1) return;
    this.#current = (this.#current + 1) % this.#ring.length;
    this.#rotations += 1;
  }

  /** Endpoints found in the cluster come after the configured ones; the one in use stays in use. */
  learn(found: readonly ServerUrl[]): void {
    const used = this.current();
    const known = new Set(this.#configured.map(({ url }) => url));
    const ring = [...this.#configured, ...found.filter(({ url }) => !known.has(url))];
    const at = ring.findIndex(({ url }) => url === used.url);
    this.#ring = at === -1 ? [...ring, used] : ring;
    this.#current = at === -1 ? ring.length : at;
  }
}
