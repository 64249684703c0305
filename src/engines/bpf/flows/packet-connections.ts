// SPDX-License-Identifier: Apache-2.0
// Records of the table of connections (bpf/packet/conn) as connections. Texts are made when they are asked for: of a million few are
// shown.
import type { Family, Protocol } from '../../../model/types.ts';
import type { Connection, ConnectionBackendState, ConnectionView } from '../../connections.ts';
import type { PortId } from '../../snapshot.ts';
import { tickOfNow } from '../conn/clock.ts';
import { expire, isExpired } from '../conn/conn-table.ts';
import { type ConnMemory, readConn, readConns } from '../conn/reader.ts';
import { type ConnRecord, phaseOf, secondsOf } from '../layout/conn-layout.ts';
import { protocolOf } from '../layout/layout.ts';
import type { Directory } from './directory.ts';
import { orderOf, sideText } from './side.ts';

export interface PacketContext {
  readonly table: ConnMemory;
  readonly directory: Directory;
}

/** Without what only says whose a port of the node is (bpf/packet/snat/own.h): it has no backend. */
export function* packetConnections(context: PacketContext): Generator<Connection> {
  const now = tickOfNow();
  let found: ConnRecord[] = [];
  const reading = readConns(context.table, (record) => {
    if (record.backendId !== 0 && !isExpired(record.seenTick, now)) found.push(record.copy());
  });
  for (let step = reading.next(); ; step = reading.next()) {
    for (const record of found) yield new PacketConnection(context, record);
    found = [];
    if (step.done === true) return;
  }
}

class PacketConnection implements Connection {
  readonly origin = 'packet';
  readonly family: Family;
  readonly protocol: Protocol;
  readonly port: PortId | undefined;
  readonly backendState: ConnectionBackendState;
  readonly #context: PacketContext;
  readonly #record: ConnRecord;

  constructor(context: PacketContext, record: ConnRecord) {
    const { directory } = context;
    this.#context = context;
    this.#record = record;
    this.family = record.family;
    this.protocol = protocolOf(record.protocol);
    const { family, backendId, generation } = record;
    const ref = { family, backendId, generation };
    const { port, backendState } = directory.describe(ref, record.side('frontend'), this.protocol);
    this.port = port;
    this.backendState = backendState;
  }

  /** `IPv4-17-3f2a`: the record, and when it began. */
  get key(): string {
    const { index, bornTick } = this.#record;
    return `${this.family}-${index}-${bornTick.toString(16)}`;
  }

  get order(): string {
    const [client, frontend] = [this.#record.side('client'), this.#record.side('frontend')];
    return `${this.family}${orderOf(frontend)}${orderOf(client)}`;
  }

  get client(): string {
    return sideText(this.#record.side('client'));
  }

  get frontend(): string {
    return sideText(this.#record.side('frontend'));
  }

  get backend(): string {
    return sideText(this.#record.side('backend'));
  }

  read(): ConnectionView | undefined {
    const { index, bornTick, proof } = this.#record;
    const now = readConn(this.#context.table, index);
    return now?.bornTick === bornTick && now.proof === proof ? viewOf(now) : undefined;
  }

  /** Its next packet begins another connection. */
  dropStale(): boolean {
    const { table, directory } = this.#context;
    const { family, backendId, generation, index, bornTick } = this.#record;
    if (!directory.isGone({ family, backendId, generation })) return false;
    return expire(table, index, bornTick, tickOfNow());
  }
}

/** What the backend sees in the place of the client; undefined: the client's own address and port. */
function replacing(record: ConnRecord): string | undefined {
  const [client, reply] = [record.side('client'), record.side('reply')];
  if (record.isMasqueraded) return reply.port === 0 ? undefined : sideText(reply);
  if (record.middlePort === client.port) return undefined;
  return sideText({ address: client.address, port: record.middlePort });
}

export function viewOf(record: ConnRecord): ConnectionView {
  const [packets = 0, bytes = 0, replyPackets = 0, replyBytes = 0] = record.traffic;
  return {
    state: phaseOf(record.state),
    snat: replacing(record),
    ...(record.returnsDirectly && { returnsDirectly: true as const }),
    bornSeconds: secondsOf(record.bornTick),
    seenSeconds: secondsOf(record.seenTick),
    toBackend: { packets, bytes },
    // Answers of a backend that returns them directly do not come by.
    toClient: record.isOneSided ? undefined : { packets: replyPackets, bytes: replyBytes },
  };
}
