// SPDX-License-Identifier: Apache-2.0
// Keys and values of the legs of flows with their addresses as text.
import {
  decodeFlow,
  decodeNat,
  decodeSnat,
  type FlowLeg,
  type NatLeg,
  type SnatLeg,
} from '../../../src/dataplane/bpf/flows/legs.ts';
import { decodeTuple, type Side } from '../../../src/dataplane/bpf/flows/tuple.ts';
import { protocolOf } from '../../../src/dataplane/bpf/maps/layout.ts';
import { addressText } from '../../../src/lib/address-bytes.ts';
import type { Family, Protocol } from '../../../src/model/types.ts';

export interface SideText {
  readonly address: string;
  readonly port: number;
}

export interface TupleText {
  readonly source: SideText;
  readonly destination: SideText;
  readonly protocol: Protocol;
}

export type FlowText = Omit<FlowLeg, 'backend'> & { readonly backend: SideText };
export type NatText = Omit<NatLeg, 'frontend' | 'snat'> & {
  readonly frontend: SideText;
  readonly snat: SideText | undefined;
};
export type SnatText = Omit<SnatLeg, 'client'> & { readonly client: SideText };

const sideText = ({ address, port }: Side): SideText => ({ address: addressText(address), port });

export function tupleText(bytes: Uint8Array, family: Family): TupleText {
  const { source, destination, protocol } = decodeTuple(bytes, family);
  return {
    source: sideText(source),
    destination: sideText(destination),
    protocol: protocolOf(protocol),
  };
}

export function flowText(bytes: Uint8Array, family: Family): FlowText {
  const leg = decodeFlow(bytes, family);
  return { ...leg, backend: sideText(leg.backend) };
}

export function natText(bytes: Uint8Array, family: Family): NatText {
  const leg = decodeNat(bytes, family);
  return { ...leg, frontend: sideText(leg.frontend), snat: leg.snat && sideText(leg.snat) };
}

export function snatText(bytes: Uint8Array, family: Family): SnatText {
  const leg = decodeSnat(bytes, family);
  return { ...leg, client: sideText(leg.client) };
}
