// SPDX-License-Identifier: Apache-2.0
// Sockets of the agent as a dataplane: it listens for each frontend, and relays each connection to a backend that the plan
// allows its client. What a connection gets is decided when it begins, by the plan of that moment.
import type { Clock } from '../../../lib/clock.ts';
import type { Plan, ServiceKey, ServicePortPlan } from '../../../plan/types.ts';
import type { Capabilities } from '../../capabilities.ts';
import type {
  AuditReport,
  Dataplane,
  FailedEntry,
  HeldFrontend,
  NodeAddress,
  SyncReport,
} from '../../dataplane.ts';
import { createTurns } from '../../router/turns.ts';
import type { Counters, Installation, PortConnections, Snapshot } from '../../snapshot.ts';
import { backendText } from '../choice/balancer.ts';
import { type Chooser, createChooser } from '../choice/chooser.ts';
import { createCounts } from '../choice/counts.ts';
import { proxyHeader } from '../choice/proxy-header.ts';
import type { Connecting } from '../choice/verdict.ts';
import { destinationOf, type Listener, listenersOf } from '../listeners/listeners.ts';
import type { PortMap } from '../listeners/port-map.ts';
import { connectionsOf, viewsOf } from '../listeners/view.ts';
import type { AddressKeeper } from './addresses.ts';
import { FILES_OF, type Files, type Shortage, withFile } from './files.ts';
import { Live, type LiveParts } from './live.ts';
import type { Memory } from './memory.ts';
import type { Bound, Chosen, ListenAddress, ListenTcp } from './tcp.ts';
import { listenUdp } from './udp.ts';

export interface UserspaceParts {
  readonly capabilities: Capabilities;
  readonly installation: Installation;
  readonly clock: Clock;
  readonly memory: Memory;
  readonly listenTcp: ListenTcp;
  /** Resets the connections of TCP; absent: they end with the process. */
  readonly endTcp?: (() => void) | undefined;
  readonly files: Files;
  /** A connection or a flow is refused because the process lacks something for it. */
  readonly onShed: (why: Shortage) => void;
  /** undefined: no addresses may be added, ports of 127.0.0.1 stand for them. */
  readonly addresses: AddressKeeper | undefined;
}

export const createUserspaceDataplane = (parts: UserspaceParts): Dataplane =>
  new UserspaceDataplane(parts);

class UserspaceDataplane implements Dataplane {
  readonly capabilities: Capabilities;
  readonly installation: Installation;
  readonly #parts: UserspaceParts;
  readonly #turns = createTurns();
  readonly #counts = createCounts();
  readonly #chooser: Chooser;
  readonly #liveParts: LiveParts;
  #plan: Plan | undefined;
  /** By the key of the listener. */
  #live = new Map<string, Live>();
  /** From before this agent. */
  readonly #formerPorts: PortMap;
  /** Nothing listens any more; connections may go on. */
  #isClosed = false;
  #isEnded = false;
  /** A successor takes over: close() is not the end. */
  #servesOn = false;

  constructor(parts: UserspaceParts) {
    const { clock, capabilities } = parts;
    this.capabilities = capabilities;
    this.installation = parts.installation;
    this.#parts = parts;
    this.#formerPorts = parts.memory.read().ports;
    this.#chooser = createChooser({
      capabilities,
      nowMs: clock.monotonicMs,
      random: clock.random,
      openTo: (port, backend) => this.#counts.backend(port, backend)?.open ?? 0,
    });
    this.#liveParts = {
      choose: (listener, connecting) => this.#choose(listener, connecting),
      listen: (listener, place, choose) => this.#listen(listener, place, choose),
      takenBy: (listener) => this.#portsBeside(listener),
    };
  }

  sync(
    plan: Plan,
    _changed: Iterable<ServiceKey> | 'all',
    nodeAddresses: readonly NodeAddress[],
  ): Promise<SyncReport> {
    return this.#turns(() => this.#apply(plan, nodeAddresses));
  }

  /** Nobody but this process changes its sockets: what there is to repair is what has failed. */
  async audit(plan: Plan, nodeAddresses: readonly NodeAddress[]): Promise<AuditReport> {
    const report = await this.#turns(() => this.#apply(plan, nodeAddresses));
    return { drift: [], report };
  }

  async held(): Promise<Iterable<HeldFrontend>> {
    const { dataplane } = this.capabilities;
    return [...this.#live.values()].map(({ listener: { id, service } }) => ({
      ...{ dataplane, id, service },
    }));
  }

  async snapshot(): Promise<Snapshot> {
    return viewsOf(this.#live.values(), this.#counts);
  }

  counters(): Counters {
    const connections: readonly PortConnections[] = connectionsOf(
      this.#live.values(),
      this.#counts,
    );
    return { tables: [], outcomes: {}, connections };
  }

  onRoom(): void {
    // Sockets have no table.
  }

  serveOn(to: 'sockets' | 'kernel'): { close(): void } {
    this.#servesOn = true;
    if (to === 'sockets') {
      // The addresses are the successor's from now on.
      this.#isEnded = true;
      this.#closeListeners();
    }
    return {
      close: () => {
        this.#servesOn = false;
        this.close();
      },
    };
  }

  async drain(): Promise<void> {
    this.#closeListeners();
    if (this.#counts.open() > 0) {
      await new Promise<void>((resolve) => this.#counts.onNoneOpen(resolve));
    }
  }

  close(): void {
    if (this.#isEnded || this.#servesOn) return;
    this.#isEnded = true;
    this.#closeListeners();
    const { addresses, endTcp } = this.#parts;
    if (addresses === undefined) return;
    // What is told to a client later has no way to it.
    endTcp?.();
    addresses.removeOthers([]);
    this.#remember();
  }

  #closeListeners(): void {
    this.#isClosed = true;
    for (const live of this.#live.values()) live.close();
  }

  async #apply(plan: Plan, nodeAddresses: readonly NodeAddress[]): Promise<SyncReport> {
    const { clock, addresses } = this.#parts;
    this.#checkOpen();
    const startedMs = clock.monotonicMs();
    const wanted = listenersOf(plan, {
      nodeAddresses: addresses?.without(nodeAddresses) ?? nodeAddresses,
      addsAddresses: addresses !== undefined,
    });
    const failed: FailedEntry[] = [
      ...(addresses?.add(wanted.values(), () => this.#remember()) ?? []),
    ];
    this.#plan = plan;
    let applied = 0;
    for (const [key, listener] of wanted) {
      const result = await this.#liveOf(key, listener).become(listener);
      this.#checkOpen();
      applied += result.changes;
      failed.push(...result.failed);
    }
    applied += this.#closeOthers(wanted);
    addresses?.removeOthers(wanted.values());
    this.#forget(plan);
    return { applied, failed, elapsedMs: clock.monotonicMs() - startedMs };
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new Error('the dataplane is closed');
  }

  #liveOf(key: string, listener: Listener): Live {
    const known = this.#live.get(key);
    if (known !== undefined) return known;
    const live = new Live(listener, this.#formerPorts.get(key), this.#liveParts);
    this.#live.set(key, live);
    return live;
  }

  #closeOthers(wanted: ReadonlyMap<string, Listener>): number {
    let closed = 0;
    for (const [key, live] of this.#live) {
      if (wanted.has(key)) continue;
      live.close();
      this.#live.delete(key);
      closed += 1;
    }
    return closed;
  }

  #forget({ services }: Plan): void {
    const ports: readonly ServicePortPlan[] = [...services.values()].flatMap((one) => one.ports);
    this.#chooser.keep(ports);
    this.#counts.keep(new Set(this.#live.keys()), new Set(ports.map(({ key }) => key)));
    this.#remember();
  }

  #remember(): boolean {
    const map = new Map<string, number>();
    for (const [key, { mappedPort }] of this.#live) {
      if (mappedPort !== undefined) map.set(key, mappedPort);
    }
    return this.#parts.memory.write({
      ports: map,
      addresses: this.#parts.addresses?.own() ?? new Set(),
    });
  }

  #portsBeside({ id, key }: Listener): ReadonlySet<number> {
    const others = [...this.#live].filter(
      ([other, { listener }]) =>
        other !== key && listener.protocol === id.protocol && listener.id.family === id.family,
    );
    return new Set(others.flatMap(([, { mappedPort }]) => mappedPort ?? []));
  }

  async #listen(
    { protocol, key }: Listener,
    place: ListenAddress,
    choose: (connecting: Connecting) => Chosen,
  ): Promise<Bound> {
    const { files, listenTcp, clock } = this.#parts;
    const shed = (why: Shortage): void => this.#shed(key, why);
    return await withFile<Bound>(files, () =>
      protocol === 'TCP' ? listenTcp(place, choose, shed) : listenUdp(place, choose, shed, clock),
    );
  }

  #shed(listener: string, why: Shortage): void {
    this.#counts.of(listener).refused += 1;
    this.#parts.onShed(why);
  }

  #choose(listener: Listener, connecting: Connecting): Chosen {
    const count = this.#counts.of(listener.key);
    if (this.#plan === undefined) return { kind: 'reject' };
    const { files } = this.#parts;
    const cost = FILES_OF[listener.protocol];
    if (!files.take(cost)) return { kind: 'full' };
    const choice = this.#chooser.choose(this.#plan, listener, connecting);
    if (choice.kind !== 'forward') {
      files.give(cost);
      if (choice.kind === 'drop') count.dropped += 1;
      else count.refused += 1;
      return choice;
    }
    count.connections += 1;
    if (choice.isRemembered) count.affinityHits += 1;
    const { backend } = choice;
    const uncount = this.#counts.opened(listener.port.key, backendText(backend));
    const ended = (): void => {
      files.give(cost);
      uncount();
    };
    const first = firstBytes(listener, connecting);
    return { kind: 'forward', backend, ended, ...(first && { first }) };
  }
}

/** At the head of a connection; undefined: nothing. */
const firstBytes = (listener: Listener, { client, clientPort, local }: Connecting) =>
  listener.port.proxyProtocol === undefined
    ? undefined
    : proxyHeader({
        client,
        clientPort,
        destination: destinationOf(listener, local),
        destinationPort: listener.frontend.port,
      });
