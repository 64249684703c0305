// SPDX-License-Identifier: Apache-2.0
// One frontend with its sockets. A change of its backends changes what the next connection gets, and no socket; of the sockets
// new ones are opened before old ones are closed.
import { hostPort } from '../../../lib/address-bytes.ts';
import type { FailedEntry } from '../../dataplane.ts';
import { backendText } from '../choice/balancer.ts';
import type { Connecting } from '../choice/verdict.ts';
import { type Listener, mappedAddress } from '../listeners/listeners.ts';
import { preferredPorts } from '../listeners/port-map.ts';
import { codeOf, failedListener } from './failure.ts';
import type { Bound, Chosen, ListenAddress } from './tcp.ts';
import type { UdpBound } from './udp.ts';

export interface LiveParts {
  readonly choose: (listener: Listener, connecting: Connecting) => Chosen;
  readonly listen: (
    listener: Listener,
    place: ListenAddress,
    choose: (connecting: Connecting) => Chosen,
  ) => Promise<Bound | UdpBound>;
  /** Ports of 127.0.0.1 and ::1 that listeners of this protocol and family have, other than this one. */
  readonly takenBy: (listener: Listener) => ReadonlySet<number>;
}

export class Live {
  #listener: Listener;
  /** Of the port map; kept while nothing listens there. */
  #mappedPort: number | undefined;
  readonly #parts: LiveParts;
  /** By `address:port`. */
  readonly #sockets = new Map<string, Bound | UdpBound>();
  #isClosed = false;

  constructor(listener: Listener, mappedPort: number | undefined, parts: LiveParts) {
    this.#listener = listener;
    this.#mappedPort = mappedPort;
    this.#parts = parts;
  }

  get listener(): Listener {
    return this.#listener;
  }

  get mappedPort(): number | undefined {
    return this.#listener.at === 'mapped' ? this.#mappedPort : undefined;
  }

  /** @returns what has changed, and what has failed: that is retried with the next call */
  async become(listener: Listener): Promise<{ changes: number; failed: readonly FailedEntry[] }> {
    this.#listener = listener;
    const { at, isClosed, frontend } = listener;
    this.#dropStale();
    const before = this.#sockets.size;
    const failed: FailedEntry[] = [];
    const kept = new Set<string>();
    if (at === 'mapped' && !isClosed) failed.push(...(await this.#map(kept)));
    for (const address of at === 'mapped' || isClosed ? [] : at) {
      failed.push(...(await this.#open({ address, port: frontend.port }, kept)));
    }
    const opened = this.#sockets.size - before;
    const closed = this.#closeOthers(kept);
    return { changes: opened + closed, failed };
  }

  /** For good: a socket that is being opened is closed as well, once it is. */
  close(): void {
    this.#isClosed = true;
    this.#closeOthers(new Set());
  }

  #closeOthers(kept: ReadonlySet<string>): number {
    let closed = 0;
    for (const [key, socket] of this.#sockets) {
      if (kept.has(key)) continue;
      this.#sockets.delete(key);
      socket.close();
      closed += 1;
    }
    return closed;
  }

  /** UDP flows whose backend has ceased to serve. */
  #dropStale(): void {
    const serving = new Set(this.#listener.port.serving.map(backendText));
    for (const socket of this.#sockets.values()) if ('keep' in socket) socket.keep(serving);
  }

  /** The port that it had, unless another process has taken it. */
  async #map(kept: Set<string>): Promise<readonly FailedEntry[]> {
    const address = mappedAddress(this.#listener.id);
    const tried = preferredPorts(
      this.#listener.key,
      this.#mappedPort,
      this.#parts.takenBy(this.#listener),
    );
    let failed: readonly FailedEntry[] = [];
    for (const port of tried) {
      const result = await this.#tryOpen({ address, port }, kept);
      if (result === undefined) {
        this.#mappedPort = port;
        return [];
      }
      failed = [failedListener(this.#listener, { address, port }, result.error)];
      if (codeOf(result.error) !== 'EADDRINUSE') break;
    }
    return failed;
  }

  async #open(place: ListenAddress, kept: Set<string>): Promise<readonly FailedEntry[]> {
    const result = await this.#tryOpen(place, kept);
    return result === undefined ? [] : [failedListener(this.#listener, place, result.error)];
  }

  async #tryOpen(
    place: ListenAddress,
    kept: Set<string>,
  ): Promise<{ readonly error: unknown } | undefined> {
    const key = hostPort(place.address, place.port);
    kept.add(key);
    if (this.#sockets.has(key)) return undefined;
    try {
      const choose = (connecting: Connecting): Chosen =>
        this.#parts.choose(this.#listener, connecting);
      const socket = await this.#parts.listen(this.#listener, place, choose);
      if (this.#isClosed) {
        socket.close();
        throw new Error('the dataplane is closed');
      }
      this.#sockets.set(key, socket);
      return undefined;
    } catch (error) {
      kept.delete(key);
      return { error };
    }
  }
}
