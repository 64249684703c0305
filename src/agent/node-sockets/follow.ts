// SPDX-License-Identifier: Apache-2.0
// Which frontends processes of this node listen at (src/plan/node-sockets/frontends.ts): tells the agent of the node's
// addresses as they change, and, while a frontend has one of them, looks twice a second who listens there.
import { reasonOf } from '../../errors.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Logger } from '../../log.ts';
import type { Problem } from '../../model/problem.ts';
import { frontendKey } from '../../plan/decide/frontends.ts';
import { frontendsOnNode, type NodeSockets } from '../../plan/node-sockets/frontends.ts';
import type { Plan } from '../../plan/types.ts';
import type { Listener, ListenerProtocol } from '../../sys/netlink/listeners.ts';
import type { NodeAddresses } from '../../sys/netlink/node-addresses.ts';

/** The Service is to answer within a second of the end of a listener. */
export const LOOK_MS = 500;

export interface NodeSocketsParts {
  readonly addresses: NodeAddresses;
  /** Throws if the kernel refuses. */
  readonly read: (protocols: Iterable<ListenerProtocol>) => readonly Listener[];
  readonly tell: (sockets: NodeSockets) => void;
  readonly clock: Pick<Clock, 'after'>;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** Tells what there is before it returns, so that no sync begins without it. */
export const followNodeSockets = (parts: NodeSocketsParts): NodeSocketsFollower =>
  new NodeSocketsFollower(parts);

export class NodeSocketsFollower {
  readonly #parts: NodeSocketsParts;
  /** Keys of frontends at addresses of the node; undefined: no plan yet, any address may have one. */
  #wanted: ReadonlySet<string> | undefined;
  #protocols: ReadonlySet<ListenerProtocol> = new Set(['TCP', 'UDP']);
  #listeners: ReadonlySet<string> = new Set();
  /** The log names these as listened to. */
  #said: ReadonlySet<string> = new Set();
  #failure: string | undefined;
  #cancel: () => void = () => undefined;
  #isClosed = false;

  constructor(parts: NodeSocketsParts) {
    this.#parts = parts;
    this.#listeners = this.#read();
    this.#tell();
    parts.addresses.listen(() => {
      if (this.#isClosed) return;
      this.#tell();
      if (this.#isWatching()) this.#look();
    });
  }

  planned(plan: Pick<Plan, 'services' | 'onNode'>): void {
    const found = [...frontendsOnNode(plan)];
    const wanted = new Set(found.map(({ key }) => key));
    if (this.#isClosed || isSame(wanted, this.#wanted)) return;
    this.#wanted = wanted;
    this.#protocols = new Set(found.map(({ protocol }) => protocol));
    this.#look();
  }

  /** Why it is not known who listens; what was known last stays. */
  problems(): readonly Problem[] {
    if (this.#failure === undefined || !this.#isWatching()) return [];
    const reason = `${this.#failure}: a process of this node that listens at an address of a Service gets nothing until they can`;
    return [{ reason, isWarning: true }];
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel();
  }

  #isWatching(): boolean {
    return this.#wanted !== undefined && this.#wanted.size > 0;
  }

  #look(): void {
    this.#cancel();
    const listeners = this.#isWatching() ? this.#read() : new Set<string>();
    this.#say(listeners);
    if (!isSame(listeners, this.#listeners)) {
      this.#listeners = listeners;
      this.#tell();
    }
    if (this.#isWatching()) this.#cancel = this.#parts.clock.after(LOOK_MS, () => this.#look());
  }

  #read(): ReadonlySet<string> {
    try {
      const keys = this.#parts
        .read(this.#protocols)
        .map(({ address, port, protocol }) => frontendKey(address, port, protocol));
      this.#failure = undefined;
      return new Set(keys.filter((key) => this.#wanted?.has(key) ?? true));
    } catch (error) {
      const reason = reasonOf(error);
      if (this.#failure !== reason && this.#isWatching())
        this.#parts.log.warn({ reason }, 'it is not known who listens at addresses of Services');
      this.#failure = reason;
      return this.#listeners;
    }
  }

  #say(listeners: ReadonlySet<string>): void {
    const { log } = this.#parts;
    for (const frontend of listeners) {
      if (this.#said.has(frontend)) continue;
      log.info(
        { frontend },
        'a process of this node listens at this frontend: it gets the packets, not the Service',
      );
    }
    for (const frontend of this.#said) {
      if (!listeners.has(frontend))
        log.info({ frontend }, 'no process of this node listens at this frontend any more');
    }
    this.#said = listeners;
  }

  #tell(): void {
    const addresses = this.#parts.addresses.current().map(({ address }) => address);
    this.#parts.tell({ addresses: new Set(addresses), listeners: this.#listeners });
  }
}

const isSame = (a: ReadonlySet<string>, b: ReadonlySet<string> | undefined): boolean =>
  a.size === b?.size && [...a].every((one) => b.has(one));
