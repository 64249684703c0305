// SPDX-License-Identifier: Apache-2.0
// TCP listeners whose connections the addon's thread relays. A batch of new connections comes to this file, and goes back with a
// backend for each; their bytes never do. To close a listener ends no connection.
import { addressBytes } from '../../../lib/address-bytes.ts';
import { familyOf } from '../../../lib/ip.ts';
import { openRelay, type Relay } from '../../../sys/native.ts';
import type { Connecting } from '../choice/verdict.ts';
import { type Shortage, shortageOf } from './files.ts';
import { type RelayAnswer, type RelayEvent, relayAnswers, relayEvents } from './relay-records.ts';
import type { Bound, Chosen, ListenAddress, ListenTcp } from './tcp.ts';

export interface RelayOptions {
  /** As long as the kernel tries with tcp_syn_retries 5, unless it is given. */
  readonly connectTimeoutMs?: number;
  /** As many as there can be files, unless it is given. */
  readonly mostConnections?: number;
}

export interface RelayedTcp {
  readonly listenTcp: ListenTcp;
  /** Resets all connections. Listeners have to be closed before. */
  readonly end: () => void;
}

/** The thread runs while there is a listener or a connection. Throws NO_ADDON if there is no addon. */
export function openRelayedTcp(options: RelayOptions = {}): RelayedTcp {
  // Now, so that its absence is known.
  const relaying = new Relaying(options);
  return {
    listenTcp: async (place, choose, shed) => relaying.listen(place, choose, shed),
    end: () => relaying.end(),
  };
}

export const relayedTcp = (options: RelayOptions = {}): ListenTcp =>
  openRelayedTcp(options).listenTcp;

interface Asked {
  readonly address: string;
  readonly choose: (connecting: Connecting) => Chosen;
  readonly shed: (why: Shortage) => void;
}

interface Open extends Pick<Asked, 'shed'> {
  readonly ended: () => void;
}

class Relaying {
  readonly #options: RelayOptions;
  readonly #listeners = new Map<number, Asked>();
  /** Connections that have a backend: what is to be called at their ends. */
  readonly #open = new Map<number, Open>();
  #relay: Relay | undefined;

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#opened();
    this.#closeIfIdle();
  }

  listen(
    { address, port: wanted }: ListenAddress,
    choose: Asked['choose'],
    shed: Asked['shed'],
  ): Bound {
    const relay = this.#opened();
    try {
      const { id, port } = relay.listen(addressBytes(address, familyOf(address)), wanted);
      this.#listeners.set(id, { address, choose, shed });
      return { port, close: () => this.#unlisten(relay, id) };
    } finally {
      this.#closeIfIdle();
    }
  }

  end(): void {
    const ended = [...this.#open.values()];
    this.#open.clear();
    this.#closeIfIdle();
    for (const one of ended) one.ended();
  }

  #opened(): Relay {
    this.#relay ??= openRelay(this.#options, (bytes) => this.#happened(relayEvents(bytes)));
    return this.#relay;
  }

  #unlisten(relay: Relay, id: number): void {
    if (!this.#listeners.delete(id)) return;
    relay.unlisten(id);
    this.#closeIfIdle();
  }

  #closeIfIdle(): void {
    if (this.#listeners.size > 0 || this.#open.size > 0) return;
    this.#relay?.close();
    this.#relay = undefined;
  }

  #happened(events: readonly RelayEvent[]): void {
    const answers: RelayAnswer[] = [];
    for (const event of events) {
      const { kind, connection, listener } = event;
      if (kind === 'asked') answers.push(this.#answer(event));
      else if (kind === 'shed') {
        this.#listeners.get(listener)?.shed('files');
      } else {
        this.#ended(connection, event.error);
      }
    }
    this.#relay?.answer(relayAnswers(answers));
    this.#closeIfIdle();
  }

  #ended(connection: number, error: string): void {
    const open = this.#open.get(connection);
    this.#open.delete(connection);
    const shortage = shortageOf(error);
    if (shortage !== undefined) open?.shed(shortage);
    open?.ended();
  }

  #answer({ connection, listener, client, clientPort }: RelayEvent): RelayAnswer {
    const asked = this.#listeners.get(listener);
    const chosen = asked?.choose({ client, clientPort, local: asked.address });
    if (chosen?.kind === 'full') asked?.shed('files');
    if (asked === undefined || chosen?.kind !== 'forward')
      return { connection, backend: undefined };
    this.#open.set(connection, { ended: chosen.ended, shed: asked.shed });
    return { connection, backend: chosen.backend, first: chosen.first };
  }
}
