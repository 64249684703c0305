// SPDX-License-Identifier: Apache-2.0
// What the ids in flows and socket records stand for: names of Service ports, states of backends.
import { addressText } from '../../../lib/address-bytes.ts';
import type { Family, Protocol } from '../../../model/types.ts';
import type { ConnectionBackendState } from '../../connections.ts';
import type { PortId } from '../../snapshot.ts';
import {
  BACKEND_STATE,
  type BackendValue,
  decodeBackend,
  decodeFrontend,
  decodeServiceName,
  decodeU32,
  encodeFrontendKey,
} from '../layout/layout.ts';
import { portIdOf, portKeyOf } from '../layout/names.ts';
import { element, type Tables } from '../state/tables.ts';
import type { Side } from './side.ts';

export interface BackendRef {
  readonly family: Family;
  readonly backendId: number;
  /** Of a socket; a packet's connection knows the generation alone. */
  readonly serviceId?: number;
  readonly generation: number;
}

export interface Described {
  readonly backendState: ConnectionBackendState;
  /** The backend's Service port, or if the backend is gone, the port that has the frontend now. */
  readonly port: PortId | undefined;
}

export interface Directory {
  ports(): readonly PortId[];
  /** As at the first look-up of the backend. */
  describe(ref: BackendRef, frontend: Side, protocol: Protocol): Described;
  /** As it is now. */
  isGone(ref: BackendRef): boolean;
  /** The port that has this frontend now. */
  portAt(family: Family, frontend: Side, protocol: Protocol): PortId | undefined;
}

/** Reads the names; backends and frontends are read when they are asked for. */
export function createDirectory(tables: Tables): Directory {
  const ports = new Map(
    tables.serviceName
      .readAll()
      .map(({ key, value }) => [decodeU32(key), portIdOf(portKeyOf(decodeServiceName(value)))]),
  );
  const known = new Map<string, BackendValue | undefined>();
  const backendOf = (ref: BackendRef): BackendValue | undefined => {
    const key = `${ref.family} ${ref.backendId}`;
    if (!known.has(key)) known.set(key, readBackend(tables, ref));
    return known.get(key);
  };
  const portAt: Directory['portAt'] = (family, frontend, protocol) => {
    const serviceId = serviceAt(tables, family, frontend, protocol);
    return serviceId === undefined ? undefined : ports.get(serviceId);
  };
  return {
    ports: () => [...ports.values()],
    portAt,
    describe(ref, frontend, protocol) {
      const backend = backendOf(ref);
      const backendState = stateOf(backend, ref);
      // The id of a Service that is gone may be another one's by now, but not while the backend is there.
      const port =
        backendState === 'gone' || backend === undefined
          ? portAt(ref.family, frontend, protocol)
          : ports.get(backend.serviceId);
      return { backendState, port };
    },
    isGone: (ref) => stateOf(readBackend(tables, ref), ref) === 'gone',
  };
}

function readBackend(
  { backend }: Tables,
  { family, backendId }: BackendRef,
): BackendValue | undefined {
  const table = backend[family];
  return backendId < table.length ? decodeBackend(element(table, backendId), family) : undefined;
}

function stateOf(
  found: BackendValue | undefined,
  { serviceId = found?.serviceId, generation }: BackendRef,
): ConnectionBackendState {
  if (found?.generation !== generation || found.serviceId !== serviceId) return 'gone';
  if (found.state === BACKEND_STATE.ACTIVE) return 'active';
  return found.state === BACKEND_STATE.TERMINATING ? 'terminating' : 'gone';
}

function serviceAt(
  { frontend, frontendRecord }: Tables,
  family: Family,
  { address, port }: Side,
  protocol: Protocol,
): number | undefined {
  const find = (text: string | undefined): Uint8Array | undefined =>
    frontend[family].get(encodeFrontendKey({ family, address: text, port, protocol }));
  const ref = find(addressText(address)) ?? find(undefined);
  return ref && decodeFrontend(element(frontendRecord, decodeU32(ref))).serviceId;
}
