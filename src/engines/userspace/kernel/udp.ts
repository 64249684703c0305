// SPDX-License-Identifier: Apache-2.0
// A UDP listener of the agent: the datagrams of each client, by address and port, go to the backend that is chosen for the first
// one, from a socket of their own, and answers go back. Such a flow ends when nothing has come for some time.
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import type { Clock } from '../../../lib/clock.ts';
import { backendText } from '../choice/balancer.ts';
import type { Connecting } from '../choice/verdict.ts';
import { codeOf } from './failure.ts';
import { type Shortage, shortageOf } from './files.ts';
import type { Bound, Chosen } from './tcp.ts';

/** As conntrack has them: nf_conntrack_udp_timeout and nf_conntrack_udp_timeout_stream. */
const UNANSWERED_MS = 30_000;
const ANSWERED_MS = 120_000;
const SWEEP_MS = 5_000;
/** Of one listener; a flow costs a file. */
const MOST_FLOWS = 4_096;
/** Of a flow whose socket is not connected yet. */
const MOST_WAITING = 64;

export interface UdpBound extends Bound {
  /** Flows to other backends end: the next datagram of such a client gets another one. */
  keep(backends: ReadonlySet<string>): void;
}

interface Flow {
  readonly socket: Socket;
  readonly backend: string;
  readonly ended: () => void;
  /** undefined: the socket is connected. */
  waiting: Buffer[] | undefined;
  lastMs: number;
  isAnswered: boolean;
}

export async function listenUdp(
  { address, port }: { readonly address: string; readonly port: number },
  choose: (connecting: Connecting) => Chosen,
  shed: (why: Shortage) => void,
  clock: Clock,
): Promise<UdpBound> {
  const type = address.includes(':') ? 'udp6' : 'udp4';
  const server = createSocket({ type, ipv6Only: type === 'udp6' });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.bind({ address, port, exclusive: true }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  // Answers that a client refuses.
  server.on('error', () => undefined);
  return new Flows(server, { address, type, choose, shed, clock });
}

interface FlowsParts {
  readonly address: string;
  readonly type: 'udp4' | 'udp6';
  readonly choose: (connecting: Connecting) => Chosen;
  readonly shed: (why: Shortage) => void;
  readonly clock: Clock;
}

class Flows implements UdpBound {
  readonly port: number;
  readonly #server: Socket;
  readonly #parts: FlowsParts;
  /** In the order in which they began. */
  readonly #flows = new Map<string, Flow>();
  #cancelSweep: () => void = () => undefined;

  constructor(server: Socket, parts: FlowsParts) {
    this.#server = server;
    this.#parts = parts;
    this.port = server.address().port;
    server.on('message', (datagram, from) => this.#fromClient(datagram, from));
    this.#sweepLater();
  }

  keep(backends: ReadonlySet<string>): void {
    for (const [key, { backend }] of this.#flows) if (!backends.has(backend)) this.#end(key);
  }

  close(): void {
    this.#cancelSweep();
    for (const key of this.#flows.keys()) this.#end(key);
    this.#server.close();
  }

  #fromClient(datagram: Buffer, from: RemoteInfo): void {
    const key = `${from.address} ${from.port}`;
    const flow = this.#flows.get(key) ?? this.#begin(key, from);
    if (flow === undefined) return;
    flow.lastMs = this.#parts.clock.monotonicMs();
    if (flow.waiting === undefined) flow.socket.send(datagram, () => undefined);
    else if (flow.waiting.length < MOST_WAITING) flow.waiting.push(datagram);
  }

  #begin(key: string, from: RemoteInfo): Flow | undefined {
    const { address: local, type, choose, shed, clock } = this.#parts;
    const connecting = { client: from.address, clientPort: from.port, local };
    if (this.#flows.size >= MOST_FLOWS) this.#endOldest();
    let chosen = choose(connecting);
    if (chosen.kind === 'full' && this.#endOldest()) chosen = choose(connecting);
    if (chosen.kind === 'full') shed('files');
    if (chosen.kind !== 'forward') return undefined;
    const { backend, ended } = chosen;
    const socket = createSocket(type);
    const flow: Flow = {
      ...{ socket, ended, backend: backendText(backend), waiting: [] },
      ...{ lastMs: clock.monotonicMs(), isAnswered: false },
    };
    this.#flows.set(key, flow);
    // Its port is closed, or the file could not be opened: the next datagram is a new flow.
    socket.on('error', (error) => {
      const shortage = shortageOf(codeOf(error));
      if (shortage !== undefined) shed(shortage);
      if (this.#flows.get(key) === flow) this.#end(key);
    });
    socket.on('message', (answer) => {
      flow.isAnswered = true;
      flow.lastMs = clock.monotonicMs();
      this.#server.send(answer, from.port, from.address, () => undefined);
    });
    socket.once('connect', () => {
      if (this.#flows.get(key) !== flow) return;
      for (const datagram of flow.waiting ?? []) socket.send(datagram, () => undefined);
      flow.waiting = undefined;
    });
    socket.connect(backend.port, backend.address);
    return flow;
  }

  /** Of the clients of this listener; false: there is none. */
  #endOldest(): boolean {
    const [oldest] = this.#flows.keys();
    if (oldest !== undefined) this.#end(oldest);
    return oldest !== undefined;
  }

  #end(key: string): void {
    const flow = this.#flows.get(key);
    if (flow === undefined) return;
    this.#flows.delete(key);
    flow.socket.close();
    flow.ended();
  }

  #sweepLater(): void {
    this.#cancelSweep = this.#parts.clock.after(SWEEP_MS, () => {
      const nowMs = this.#parts.clock.monotonicMs();
      for (const [key, { lastMs, isAnswered }] of this.#flows) {
        if (nowMs - lastMs >= (isAnswered ? ANSWERED_MS : UNANSWERED_MS)) this.#end(key);
      }
      this.#sweepLater();
    });
  }
}
