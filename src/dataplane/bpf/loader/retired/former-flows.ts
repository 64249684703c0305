// SPDX-License-Identifier: Apache-2.0
// The flows that an earlier agent has pinned, whatever its version: for one that runs another engine, which migrates no
// maps, and only has to know whether connections live.
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { FairleadError } from '../../../../errors.ts';
import { FAMILIES, type Family, type Protocol } from '../../../../model/types.ts';
import { type BpfMap, openPinnedMap } from '../../../../sys/native.ts';
import { bpfObjectPath } from '../../../../sys/package.ts';
import type { ConnectionView } from '../../../connections.ts';
import { viewOf } from '../../flows/flow-connections.ts';
import {
  elementsIn,
  elementsOf,
  type FlowTable,
  type FlowTables,
} from '../../flows/flow-tables.ts';
import { flowTuple, joinFlow, snatToNatTuple } from '../../flows/join.ts';
import { flowTable, flowTablesOf, LEG_MAPS, type LegMap } from '../../flows/kernel.ts';
import { decodeNat, decodeSnat, LEG_SIZE } from '../../flows/legs.ts';
import { decodeTuple, encodeTuple, TUPLE_SIZE, type Tuple } from '../../flows/tuple.ts';
import { protocolOf } from '../../maps/layout.ts';
import { declaredMaps, fieldsOf, type Known } from '../migration/changes.ts';
import { openPin } from '../open-pinned.ts';
import { formerPin } from '../pins.ts';
import { closeAll } from '../undo.ts';
import { mapPin } from '../versions.ts';
import { convertedTable, type TableLayout } from './converted-table.ts';

const PACKET_OBJECT = 'packet.bpf.o';

export interface FormerFlow {
  readonly protocol: Protocol;
  readonly view: ConnectionView;
}

/** Every flow with a flow leg. Throws OTHER_LAYOUT if their version has not recorded its fields. */
export function* formerFlows(bpfRoot: string): Generator<FormerFlow> {
  const legs = openLegs(bpfRoot);
  try {
    if (legs !== undefined) yield* flowsIn(flowTablesOf(reader(bpfRoot, legs)));
  } finally {
    closeLegs(legs);
  }
}

/** Uses the tables, if they are pinned. Throws as `formerFlows`. */
export function withFormerFlows(bpfRoot: string, use: (flows: FlowTables) => void): void {
  const legs = openLegs(bpfRoot);
  if (legs === undefined) return;
  try {
    use(flowTablesOf(reader(bpfRoot, legs)));
  } finally {
    closeLegs(legs);
  }
}

/**
 * Ends UDP flows whose one question is answered, as those of DNS clients are. Netfilter, which serves next, knows nothing of their SNAT
 * ports: the answers to what it masquerades to one of them would go to the client that had it before. And the next socket that the
 * client's kernel gives the port of such a flow would be led to its endpoint, which may be gone by then. Throws OTHER_LAYOUT.
 */
export function forgetAnswered(bpfRoot: string): void {
  withFormerFlows(bpfRoot, (flows) => {
    for (const family of FAMILIES) {
      for (const { key, value } of elementsIn(flows[family].snat.halfOpen)) {
        const tuple = decodeTuple(key, family);
        const leg = decodeSnat(value, family);
        if (protocolOf(tuple.protocol) !== 'UDP' || !leg.isAnswered) continue;
        endFlow(flows, family, snatToNatTuple(tuple, leg));
        flows[family].snat.halfOpen.delete(key);
      }
      for (const { key, value } of elementsIn(flows[family].nat.halfOpen)) {
        const tuple = decodeTuple(key, family);
        const isAnswered = decodeNat(value, family).hasReplied;
        if (protocolOf(tuple.protocol) === 'UDP' && isAnswered) endFlow(flows, family, tuple);
      }
    }
  });
}

/** The flow leg first: a request that found it alone would make the others again. */
function endFlow(flows: FlowTables, family: Family, tuple: Tuple): void {
  const { flow, nat } = flows[family];
  const key = encodeTuple(tuple, family);
  const value = nat.halfOpen.get(key);
  if (value === undefined) return;
  flow.halfOpen.delete(encodeTuple(flowTuple(tuple, decodeNat(value, family)), family));
  nat.halfOpen.delete(key);
}

interface OpenLeg {
  /** As it was when the map was opened: another `fairlead cleanup` may remove it meanwhile. */
  readonly path: string;
  readonly map: BpfMap;
}

type OpenLegs = ReadonlyMap<LegMap, OpenLeg>;

/** undefined: one is not pinned, or not any more. */
function openLegs(bpfRoot: string): OpenLegs | undefined {
  const legs = new Map<LegMap, OpenLeg>();
  try {
    for (const name of LEG_MAPS) {
      const path = formerPin(bpfRoot, name);
      if (path === undefined) {
        closeLegs(legs);
        return undefined;
      }
      legs.set(name, { path, map: openPin(bpfRoot, path, openPinnedMap) });
    }
    return legs;
  } catch (error) {
    closeLegs(legs);
    if (error instanceof FairleadError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

const closeLegs = (legs: OpenLegs | undefined): void =>
  closeAll([...(legs?.values() ?? [])].map(({ map }) => map));

function* flowsIn(flows: FlowTables): Generator<FormerFlow> {
  for (const family of FAMILIES) {
    for (const { key } of elementsOf(flows[family].flow)) {
      const joined = joinFlow(flows, family, key);
      if (joined === undefined) continue;
      const { protocol } = decodeTuple(key, family);
      yield { protocol: protocolOf(protocol), view: viewOf(joined) };
    }
  }
}

function reader(bpfRoot: string, legs: OpenLegs): (name: LegMap) => FlowTable {
  let known: Known | undefined;
  return (name) => {
    const leg = legs.get(name);
    if (leg === undefined) throw new TypeError(`${name} is not open`);
    const { map, path } = leg;
    const table = flowTable(map);
    if (basename(path) === mapPin(name)) return table;
    known ??= {
      bpfRoot,
      declared: declaredMaps([{ bytes: readFileSync(bpfObjectPath(PACKET_OBJECT)) }], {}),
    };
    return convertedTable(table, formerLayout(known, path, table), ownLayout(known, name));
  };
}

function formerLayout(
  known: Known,
  path: string,
  { keySize, valueSize }: Pick<FlowTable, 'keySize' | 'valueSize'>,
): TableLayout {
  const { key, value } = fieldsOf(known, path);
  return { key: { fields: key, bytes: keySize }, value: { fields: value, bytes: valueSize } };
}

/** `fl_new_nat4` -> those of an IPv4 nat leg. */
function ownLayout({ declared }: Known, name: LegMap): TableLayout {
  const { key = '', value = '' } = declared.get(name) ?? {};
  const family = name.endsWith('4') ? 'IPv4' : 'IPv6';
  const leg = (['snat', 'nat', 'flow'] as const).find((one) => name.includes(one)) ?? 'flow';
  return {
    key: { fields: key, bytes: TUPLE_SIZE[family] },
    value: { fields: value, bytes: LEG_SIZE[leg][family] },
  };
}
