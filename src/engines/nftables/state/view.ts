// SPDX-License-Identifier: Apache-2.0
// A table as it is held -> frontends and backends.
import type { Family, Protocol } from '../../../model/types.ts';
import type { HeldFrontend } from '../../dataplane.ts';
import type { FrontendId } from '../../entry.ts';
import { backendViews } from '../../rules/backends.ts';
import type { FrontendView, PortId, Snapshot } from '../../snapshot.ts';
import {
  CLUSTER_IPS,
  NO_ENDPOINT_NODEPORTS,
  NO_ENDPOINT_SERVICES,
  portOfChain,
  SERVICE_IPS,
  SERVICE_NODEPORTS,
} from '../rules/names.ts';
import type { HeldTable } from '../rules/types.ts';
import { backendsOf, chainFor, NOBODY, secondsOf } from './sets-view.ts';

const dataplane = 'nftables';

export function snapshotOf(family: Family, table: HeldTable): Snapshot {
  const frontends = frontendViews(family, table);
  return { frontends, backends: backendViews(frontends) };
}

/** With the refusals of a ClusterIP's other ports. */
export const heldFrontends = (family: Family, table: HeldTable): readonly HeldFrontend[] => [
  ...entriesOf(family, table).map(({ id, port }) => ({
    ...{ dataplane, id, service: `${port.namespace}/${port.name}` },
  })),
  ...otherPorts(family, table),
];

interface FrontendEntry {
  readonly id: FrontendId;
  readonly port: PortId;
  readonly chain: string | undefined;
  readonly verdict: 'reject' | 'drop' | undefined;
}

/** Frontends with backends are in one map, those without any in another, those with some of them in both. */
function entriesOf(family: Family, { elements }: HeldTable): readonly FrontendEntry[] {
  const entries = new Map<string, FrontendEntry>();
  for (const map of [SERVICE_IPS, SERVICE_NODEPORTS]) {
    for (const [key, value] of elements.get(map) ?? []) {
      const chain = / : goto (\S+)$/.exec(value)?.[1] ?? '';
      const named = portOfChain(chain);
      const id = idOf(family, key);
      if (named === undefined || id === undefined) continue;
      const port = { ...named, protocol: id.protocol, family };
      entries.set(key, { id, port, chain, verdict: undefined });
    }
  }
  for (const map of [NO_ENDPOINT_SERVICES, NO_ENDPOINT_NODEPORTS]) {
    for (const [key, value] of elements.get(map) ?? []) {
      const id = idOf(family, key);
      const port = id && portIn(value, id.protocol, family);
      if (id === undefined || port === undefined) continue;
      const verdict = value.endsWith(' : drop') ? 'drop' : 'reject';
      entries.set(key, { ...{ id, port, chain: undefined }, ...entries.get(key), verdict });
    }
  }
  return [...entries.values()];
}

/** `10.96.0.10 . tcp . 80`, of a NodePort `tcp . 30080`. */
function idOf(
  family: Family,
  key: string,
): (FrontendId & { readonly protocol: Protocol }) | undefined {
  const parts = key.split(' . ');
  const [protocol = '', port = ''] = parts.slice(-2);
  if (!/^(tcp|udp|sctp)$/.test(protocol)) return undefined;
  const address = parts.length === 3 ? parts[0] : undefined;
  return { family, address, port: Number(port), protocol: protocol.toUpperCase() as Protocol };
}

/** ` comment "default/web:http" : drop` */
function portIn(value: string, protocol: Protocol, family: Family): PortId | undefined {
  const [, namespace, name, portName = ''] =
    /comment "([^"/]+)\/([^":]+)(?::([^"]*))?"/.exec(value) ?? [];
  if (namespace === undefined || name === undefined) return undefined;
  return { namespace, name, portName, protocol, family };
}

function frontendViews(family: Family, table: HeldTable): readonly FrontendView[] {
  return entriesOf(family, table).map(({ id, port, chain, verdict = 'reject' }) => {
    const [host, outside] = [true, false].map((isHost) =>
      chain === undefined ? NOBODY : backendsOf(table, chainFor(table, chain, isHost)),
    );
    return {
      ...{ dataplane, id, port, internal: host ?? NOBODY, external: outside ?? NOBODY },
      ...{ internalEmpty: verdict, externalEmpty: verdict },
      affinitySeconds: chain === undefined ? 0 : secondsOf(table, chainFor(table, chain, true)),
    };
  });
}

function otherPorts(family: Family, { elements }: HeldTable): readonly HeldFrontend[] {
  return [...(elements.get(CLUSTER_IPS) ?? [])].flatMap(([address, value]) => {
    const service = / comment "([^"]+)"/.exec(value)?.[1];
    const id = { family, address, port: undefined, protocol: undefined };
    return service === undefined ? [] : [{ dataplane, id, service }];
  });
}
