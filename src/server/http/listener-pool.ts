// SPDX-License-Identifier: Apache-2.0
// The agent's listeners, and those that it got from the agent before it. They outlive what answers on them: while one agent
// is replaced by the next, each socket goes on listening, and what answered before goes on answering until the next one does.
import { closeSync } from 'node:fs';
import type { RequestListener, Server } from 'node:http';
import { type AddressInfo, Server as NetServer } from 'node:net';
import { reasonOf } from '../../errors.ts';
import { hostPort } from '../../lib/address-bytes.ts';
import type { Logger } from '../../log.ts';
import { descriptorOf } from '../../sys/descriptor.ts';
import {
  adoptServer,
  bindServer,
  closeServer,
  type Listen,
  type Listener,
  type ListenOptions,
  portOf,
} from './listen.ts';

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  readonly isIpv6Only: boolean;
}

/** A socket that listens there. */
export interface Inherited extends ListenAddress {
  readonly descriptor: number;
}

export const createListenerPool = (log: Pick<Logger, 'warn'>): ListenerPool =>
  new ListenerPool(log);

interface Held {
  at: ListenAddress;
  /** undefined: nobody accepts in this process yet. */
  server: Server | undefined;
  /** Of a socket without a server. */
  descriptor: number | undefined;
  answer: RequestListener;
  /** Answers after `start`. */
  next: RequestListener | undefined;
  /** Who may close it. */
  owner: object | undefined;
}

const keyOf = ({ host, port, isIpv6Only = false }: Omit<ListenOptions, 'onRequest'>): string =>
  `${hostPort(host, port)} ${isIpv6Only}`;

export class ListenerPool {
  readonly #log: Pick<Logger, 'warn'>;
  readonly #held = new Map<string, Held>();
  /** Clients are to open their next connection anew: it may be another process that answers it. */
  #isLeaving = false;

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log;
  }

  /** Of an inherited socket: it answers from `start` on. */
  readonly listen: Listen = async (options) => {
    const held = this.#held.get(keyOf(options));
    if (held === undefined || held.owner !== undefined) return this.#bind(options);
    held.next = options.onRequest;
    return this.#own(held);
  };

  /** Sockets of another agent, whose descriptors are ours from now on. */
  inherit(listeners: readonly Inherited[]): void {
    for (const { descriptor, ...at } of listeners) {
      const held = { at, server: undefined, descriptor, next: undefined, owner: undefined };
      this.#held.set(keyOf(at), { ...held, answer: notYet });
    }
  }

  /**
   * Leaves all listeners to whoever listens on the same addresses next, in this process or in another one: closing them
   * has no effect any more, and they answer as they do now. Returns them.
   */
  keep(): readonly Inherited[] {
    this.#isLeaving = true;
    return [...this.#held.values()].flatMap((held) => {
      held.owner = undefined;
      held.next = undefined;
      const descriptor = held.server === undefined ? held.descriptor : descriptorOf(held.server);
      return descriptor === undefined ? [] : [{ ...held.at, descriptor }];
    });
  }

  /** Inherited listeners answer what they have been asked for since; closes those that nobody listens on any more. */
  async start(): Promise<void> {
    this.#isLeaving = false;
    await Promise.all(
      [...this.#held].map(([key, held]) =>
        held.owner === undefined ? this.#drop(key, held) : this.#activate(key, held),
      ),
    );
  }

  /** Accepts no connection any more, and answers what is under way; resolves when the last connection has ended. */
  async leave(): Promise<void> {
    this.#isLeaving = true;
    const servers = [...this.#held.values()].flatMap(({ server }) => server ?? []);
    await Promise.all(servers.map(leaveServer));
  }

  async #bind(options: ListenOptions): Promise<Listener> {
    const { host, port, isIpv6Only = false, onRequest: answer } = options;
    const parts = { server: undefined, descriptor: undefined, next: undefined, owner: undefined };
    const held: Held = { at: { host, port, isIpv6Only }, ...parts, answer };
    const server = await bindServer({ ...options, onRequest: this.#dispatch(held) });
    held.server = server;
    held.at = { ...held.at, port: portOf(server) };
    this.#held.set(keyOf(held.at), held);
    return this.#own(held);
  }

  #own(held: Held): Listener {
    const owner = {};
    held.owner = owner;
    let closing: Promise<void> | undefined;
    return {
      port: held.at.port,
      close: () => {
        closing ??= held.owner === owner ? this.#drop(keyOf(held.at), held) : Promise.resolve();
        return closing;
      },
    };
  }

  #dispatch(held: Held): RequestListener {
    return (request, response) => {
      if (this.#isLeaving) response.shouldKeepAlive = false;
      held.answer(request, response);
    };
  }

  async #drop(key: string, held: Held): Promise<void> {
    this.#held.delete(key);
    const { server, descriptor } = held;
    held.descriptor = undefined;
    if (descriptor !== undefined) closeSync(descriptor);
    if (server !== undefined) await closeServer(server);
  }

  async #activate(key: string, held: Held): Promise<void> {
    held.answer = held.next ?? held.answer;
    held.next = undefined;
    if (held.server !== undefined || held.descriptor === undefined) return;
    const { at, descriptor } = held;
    held.descriptor = undefined;
    try {
      held.server = await this.#adopt(descriptor, held);
    } catch (error) {
      this.#log.warn(
        { listener: hostPort(at.host, at.port), reason: reasonOf(error) },
        'inherited listener cannot be used, listening anew',
      );
      await this.#bindAnew(key, held);
    }
  }

  async #adopt(descriptor: number, held: Held): Promise<Server> {
    const server = await adoptServer(descriptor, this.#dispatch(held));
    const { address, port } = server.address() as AddressInfo;
    if (address === held.at.host && port === held.at.port) return server;
    await closeServer(server);
    throw new Error(`it listens on ${hostPort(address, port)}`);
  }

  async #bindAnew(key: string, held: Held): Promise<void> {
    try {
      held.server = await bindServer({ ...held.at, onRequest: this.#dispatch(held) });
    } catch (error) {
      this.#held.delete(key);
      this.#log.warn({ reason: reasonOf(error) }, 'server not listening');
    }
  }
}

/** Not http's own close(), which ends idle connections: a request may be on its way on them. */
const leaveServer = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    NetServer.prototype.close.call(server, () => resolve());
  });

/** Never called: without a server nothing is asked. */
const notYet: RequestListener = (_request, response) => {
  response.writeHead(503).end();
};
