// SPDX-License-Identifier: Apache-2.0
// Joins the legs of a flow. From the value of each leg the key of another one can be made:
//   flow  client -> frontend        value: backend          => key of nat
//   nat   client <-> backend        value: frontend, SNAT   => keys of flow and snat
//   snat  backend -> SNAT address   value: client           => key of nat
import type { Family } from '../../../model/types.ts';
import type { FlowState } from '../maps/packet-layout.ts';
import { type FlowTables, findLeg } from './flow-tables.ts';
import {
  decodeFlow,
  decodeNat,
  decodeSnat,
  type FlowLeg,
  type NatLeg,
  type SnatLeg,
} from './legs.ts';
import { ascending, decodeTuple, encodeTuple, type Side, type Tuple } from './tuple.ts';

/** The legs that are there, with their keys. */
export interface Joined {
  readonly client: Side;
  readonly backend: Side;
  readonly flow?: { readonly key: Uint8Array; readonly leg: FlowLeg };
  readonly nat?: { readonly key: Uint8Array; readonly leg: NatLeg };
  /** With the SNAT address. */
  readonly snat?: { readonly key: Uint8Array; readonly leg: SnatLeg; readonly address: Side };
}

export const natTuple = ({ source, protocol }: Tuple, { backend, clientPort }: FlowLeg): Tuple =>
  ascending({
    source: { address: source.address, port: clientPort },
    destination: backend,
    protocol,
  });

/** The sides of the key of a nat leg, the client's with its own port. */
export function natSides(
  { source, destination }: Tuple,
  { isClientSource, clientPort }: NatLeg,
): { readonly client: Side; readonly backend: Side } {
  const [{ address }, backend] = isClientSource ? [source, destination] : [destination, source];
  return { client: { address, port: clientPort }, backend };
}

export const flowTuple = (key: Tuple, leg: NatLeg): Tuple => ({
  source: natSides(key, leg).client,
  destination: leg.frontend,
  protocol: key.protocol,
});

/** undefined: the flow has no snat leg. */
export function snatKeyOf(key: Tuple, leg: NatLeg, family: Family): Uint8Array | undefined {
  if (leg.snat === undefined) return undefined;
  const { backend: source } = natSides(key, leg);
  return encodeTuple({ source, destination: leg.snat, protocol: key.protocol }, family);
}

export const snatToNatTuple = ({ source: backend, protocol }: Tuple, { client }: SnatLeg): Tuple =>
  ascending({ source: client, destination: backend, protocol });

/** The legs of the flow with this key; undefined if there is no such flow leg. */
export function joinFlow(
  tables: FlowTables,
  family: Family,
  key: Uint8Array,
): (Joined & Required<Pick<Joined, 'flow'>>) | undefined {
  const value = findLeg(tables[family].flow, key);
  if (value === undefined) return undefined;
  const tuple = decodeTuple(key, family);
  const leg = decodeFlow(value, family);
  const natKey = encodeTuple(natTuple(tuple, leg), family);
  const nat = findNat(tables, family, natKey);
  return {
    client: tuple.source,
    backend: leg.backend,
    flow: { key, leg },
    // Another flow's, if it leads to another frontend.
    ...(nat !== undefined && leadsTo(nat, family, key) && withSnat(tables, family, nat)),
  };
}

/** The legs of a nat leg whose flow leg is missing; undefined if either is no longer so. */
export function joinOrphanNat(
  tables: FlowTables,
  family: Family,
  key: Uint8Array,
): Joined | undefined {
  const nat = findNat(tables, family, key);
  if (nat === undefined) return undefined;
  const tuple = decodeTuple(key, family);
  if (hasLeg(tables, family, 'flow', flowTuple(tuple, nat.leg))) return undefined;
  return { ...natSides(tuple, nat.leg), ...withSnat(tables, family, nat) };
}

/** A snat leg whose nat leg is missing; undefined if either is no longer so. */
export function joinOrphanSnat(
  tables: FlowTables,
  family: Family,
  key: Uint8Array,
): Joined | undefined {
  const value = findLeg(tables[family].snat, key);
  if (value === undefined) return undefined;
  const tuple = decodeTuple(key, family);
  const leg = decodeSnat(value, family);
  if (hasLeg(tables, family, 'nat', snatToNatTuple(tuple, leg))) return undefined;
  const { source: backend, destination: address } = tuple;
  return { client: leg.client, backend, snat: { key, leg, address } };
}

export const hasLeg = (
  tables: FlowTables,
  family: Family,
  leg: 'flow' | 'nat',
  tuple: Tuple,
): boolean => findLeg(tables[family][leg], encodeTuple(tuple, family)) !== undefined;

type FoundNat = Required<Joined>['nat'];

function findNat(tables: FlowTables, family: Family, key: Uint8Array): FoundNat | undefined {
  const value = findLeg(tables[family].nat, key);
  return value && { key, leg: decodeNat(value, family) };
}

function leadsTo({ key, leg }: FoundNat, family: Family, flowKey: Uint8Array): boolean {
  return equals(encodeTuple(flowTuple(decodeTuple(key, family), leg), family), flowKey);
}

export const equals = (a: Uint8Array, b: Uint8Array): boolean =>
  a.every((byte, at) => byte === b[at]);

/** The snat leg only if it is this nat leg's. */
export function withSnat(
  tables: FlowTables,
  family: Family,
  nat: FoundNat,
): Pick<Joined, 'nat' | 'snat'> {
  const { snat: address } = nat.leg;
  const key = snatKeyOf(decodeTuple(nat.key, family), nat.leg, family);
  const value = key && findLeg(tables[family].snat, key);
  if (address === undefined || key === undefined || value === undefined) return { nat };
  const leg = decodeSnat(value, family);
  const owner = encodeTuple(snatToNatTuple(decodeTuple(key, family), leg), family);
  // The port may have been given to another flow since this one has ended.
  return equals(owner, nat.key) ? { nat, snat: { key, leg, address } } : { nat };
}

/** From what both sides have sent, as state_of() in bpf/packet/flow.h: a flow leg may lag behind. */
export function stateOf(flow: FlowLeg, nat: NatLeg | undefined): FlowState {
  const hasBackendFin = nat?.hasFin === true;
  if (flow.hasReset || nat?.hasReset === true || (flow.hasFin && hasBackendFin)) return 'closed';
  if (flow.hasFin || hasBackendFin) return 'half-closed';
  return flow.state;
}
