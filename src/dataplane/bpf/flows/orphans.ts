// SPDX-License-Identifier: Apache-2.0
// Nat and snat legs that no flow leg leads to: it was evicted, or deleted by hand. Replies are still translated
// by them, until the client's next packet makes the flow leg again or the sweep deletes them.
import type { Connection, Leg } from '../../connections.ts';
import { protocolOf } from '../maps/layout.ts';
import { connectionKey, type FlowContext, viewOf } from './flow-connections.ts';
import { elementsOf } from './flow-tables.ts';
import {
  flowTuple,
  hasLeg,
  type Joined,
  joinOrphanNat,
  joinOrphanSnat,
  natSides,
  snatKeyOf,
  snatToNatTuple,
} from './join.ts';
import { createKeySet, type KeySet } from './key-set.ts';
import { decodeNat, decodeSnat, type SnatLeg } from './legs.ts';
import { decodeTuple, orderOf, type Side, sideText, type Tuple } from './tuple.ts';

/** @param natKeys those that flow legs lead to: a look-up of each would take three times as long */
export function* orphanConnections(context: FlowContext, natKeys: KeySet): Generator<Connection> {
  const snatKeys = createKeySet();
  yield* orphanNats(context, natKeys, snatKeys);
  yield* orphanSnats(context, snatKeys);
}

function* orphanNats(
  context: FlowContext,
  natKeys: KeySet,
  snatKeys: KeySet,
): Generator<Connection> {
  const { flows, family } = context;
  for (const { key, value } of elementsOf(flows[family].nat)) {
    const tuple = decodeTuple(key, family);
    const leg = decodeNat(value, family);
    const snatKey = snatKeyOf(tuple, leg, family);
    if (snatKey !== undefined) snatKeys.add(snatKey);
    if (natKeys.has(key)) continue;
    if (hasLeg(flows, family, 'flow', flowTuple(tuple, leg))) continue;
    yield orphan(context, {
      ...{ key, leg: 'nat', protocol: tuple.protocol },
      ...natSides(tuple, leg),
      frontend: leg.frontend,
      join: () => joinOrphanNat(flows, family, key),
    });
  }
}

function* orphanSnats(context: FlowContext, snatKeys: KeySet): Generator<Connection> {
  const { flows, family } = context;
  for (const { key, value } of elementsOf(flows[family].snat)) {
    if (snatKeys.has(key)) continue;
    const tuple = decodeTuple(key, family);
    const leg = decodeSnat(value, family);
    if (leg.isReserved || isNodesOwn(tuple, leg)) continue;
    if (hasLeg(flows, family, 'nat', snatToNatTuple(tuple, leg))) continue;
    yield orphan(context, {
      ...{ key, leg: 'snat', protocol: tuple.protocol },
      ...{ client: leg.client, backend: tuple.source, frontend: undefined },
      join: () => joinOrphanSnat(flows, family, key),
    });
  }
}

/** No flow: bpf/packet/snat/own.h. */
const isNodesOwn = ({ destination }: Tuple, { client }: SnatLeg): boolean =>
  sideText(client) === sideText(destination);

interface Orphan {
  readonly key: Uint8Array;
  readonly leg: Leg;
  readonly protocol: number;
  readonly client: Side;
  readonly backend: Side;
  readonly frontend: Side | undefined;
  readonly join: () => Joined | undefined;
}

function orphan({ family, directory }: FlowContext, found: Orphan): Connection {
  const { client, backend, frontend, join } = found;
  const protocol = protocolOf(found.protocol);
  return {
    key: connectionKey(found.leg, family, found.key),
    order: `${family}${orderOf(frontend ?? backend)}${orderOf(client)}`,
    origin: 'packet',
    ...{ family, protocol },
    port: frontend && directory.portAt(family, frontend, protocol),
    client: sideText(client),
    frontend: frontend === undefined ? '' : sideText(frontend),
    backend: sideText(backend),
    backendState: 'unknown',
    read() {
      const joined = join();
      return joined && viewOf(joined);
    },
    dropStale: () => false,
  };
}
