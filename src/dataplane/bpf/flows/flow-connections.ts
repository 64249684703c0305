// SPDX-License-Identifier: Apache-2.0
// Flow legs as connections. Texts are made when they are asked for: of a million flows few are shown.
import type { Family, Protocol } from '../../../model/types.ts';
import type { Connection, ConnectionBackendState, ConnectionView, Leg } from '../../connections.ts';
import type { PortId, Traffic } from '../../snapshot.ts';
import { protocolOf } from '../maps/layout.ts';
import type { ArrayTable } from '../maps/tables.ts';
import type { Directory } from './directory.ts';
import { deleteLeg, elementsOf, type FlowTables } from './flow-tables.ts';
import { type Joined, joinFlow, natTuple, stateOf } from './join.ts';
import type { KeySet } from './key-set.ts';
import { decodeFlow, type FlowLeg, type NatLeg } from './legs.ts';
import { addTraffic } from './traffic/ended.ts';
import { decodeTuple, encodeTuple, orderOf, sideText, type Tuple } from './tuple.ts';

export interface FlowContext {
  readonly flows: FlowTables;
  readonly traffic: ArrayTable;
  readonly directory: Directory;
  readonly family: Family;
}

/** @param natKeys gets the keys of the nat legs that the flows lead to */
export function* flowConnections(context: FlowContext, natKeys: KeySet): Generator<Connection> {
  const { flows, family } = context;
  for (const { key, value } of elementsOf(flows[family].flow)) {
    const leg = decodeFlow(value, family);
    const tuple = decodeTuple(key, family);
    natKeys.add(encodeTuple(natTuple(tuple, leg), family));
    yield new FlowConnection(context, { key, tuple, leg });
  }
}

interface FlowEntry {
  readonly key: Uint8Array;
  readonly tuple: Tuple;
  readonly leg: FlowLeg;
}

const NONE: Traffic = { packets: 0, bytes: 0 };

/** `flow-IPv4-c6336407…`. */
export const connectionKey = (leg: Leg, family: Family, key: Uint8Array): string =>
  `${leg}-${family}-${Buffer.from(key).toString('hex')}`;

class FlowConnection implements Connection {
  readonly origin = 'packet';
  readonly family: Family;
  readonly protocol: Protocol;
  readonly port: PortId | undefined;
  readonly backendState: ConnectionBackendState;
  readonly #context: FlowContext;
  readonly #key: Uint8Array;
  readonly #leg: FlowLeg;
  readonly #tuple: Tuple;

  constructor(context: FlowContext, { key, tuple, leg }: FlowEntry) {
    const { directory, family } = context;
    this.#context = context;
    this.#key = key;
    this.#leg = leg;
    this.#tuple = tuple;
    this.family = family;
    this.protocol = protocolOf(tuple.protocol);
    const { destination } = tuple;
    const { port, backendState } = directory.describe(
      { family, ...leg },
      destination,
      this.protocol,
    );
    this.port = port;
    this.backendState = backendState;
  }

  get key(): string {
    return connectionKey('flow', this.family, this.#key);
  }

  get order(): string {
    const { source, destination } = this.#tuple;
    return `${this.family}${orderOf(destination)}${orderOf(source)}`;
  }

  get client(): string {
    return sideText(this.#tuple.source);
  }

  get frontend(): string {
    return sideText(this.#tuple.destination);
  }

  get backend(): string {
    return sideText(this.#leg.backend);
  }

  read(): ConnectionView | undefined {
    const joined = joinFlow(this.#context.flows, this.family, this.#key);
    return joined && viewOf(joined);
  }

  /** The flow leg first: a request that found it alone would make the other legs again. */
  dropStale(): boolean {
    const { flows, directory, family, traffic } = this.#context;
    const joined = joinFlow(flows, family, this.#key);
    if (joined === undefined) return false;
    const { flow, nat, snat } = joined;
    if (!directory.isGone({ family, ...flow.leg })) return false;
    if (!deleteLeg(flows[family].flow, flow.key)) return false;
    if (nat !== undefined) deleteLeg(flows[family].nat, nat.key);
    if (snat !== undefined) deleteLeg(flows[family].snat, snat.key);
    addTraffic(traffic, flow.leg.frontendId, { toBackend: flow.leg, toClient: nat?.leg ?? NONE });
    return true;
  }
}

/** What the legs that are there say together. */
export function viewOf({ client, flow, nat, snat }: Joined): ConnectionView {
  const seen = [flow, nat, snat].flatMap((leg) => leg?.leg.seenSeconds ?? []);
  const clientPort = flow?.leg.clientPort ?? client.port;
  const replacing =
    nat?.leg.snat ??
    snat?.address ??
    (clientPort === client.port ? undefined : { address: client.address, port: clientPort });
  const legs = Object.entries({ flow, nat, snat }).flatMap(([leg, found]) =>
    found === undefined ? [] : [leg as Leg],
  );
  return {
    state: flow === undefined ? 'orphan' : stateOf(flow.leg, nat?.leg),
    snat: replacing && sideText(replacing),
    ...(flow?.leg.returnsDirectly && { returnsDirectly: true as const }),
    legs,
    bornSeconds: flow?.leg.bornSeconds,
    seenSeconds: Math.max(...seen),
    toBackend: flow && trafficOf(flow.leg),
    toClient: nat && trafficOf(nat.leg),
  };
}

const trafficOf = ({ packets, bytes }: FlowLeg | NatLeg): Traffic => ({ packets, bytes });
