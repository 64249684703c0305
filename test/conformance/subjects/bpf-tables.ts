// SPDX-License-Identifier: Apache-2.0
// What a new connection gets from the tables of the BPF dataplane, read as the programs read them
// (bpf/common/frontend.h, select.h): the in-memory model with which the kernel's results are compared.
import {
  ADDRESS_SCOPE,
  BACKEND_STATE,
  type BackendValue,
  decodeBackend,
  decodeFrontend,
  decodeU32,
  encodeFrontendKey,
  type FrontendValue,
  hasTable,
  NODE_PORTS_OFFSET,
  type RuleValue,
} from '../../../src/engines/bpf/layout/layout.ts';
import { readRun } from '../../../src/engines/bpf/rows/service-port/runs.ts';
import { element, type Tables } from '../../../src/engines/bpf/state/tables.ts';
import type { FrontendId } from '../../../src/engines/entry.ts';
import { addressBytes, hostPort } from '../../../src/lib/address-bytes.ts';
import { familyOf, isLoopback } from '../../../src/lib/ip.ts';
import type { Family } from '../../../src/model/types.ts';
import type { Packet } from '../../../src/plan/explain/packet.ts';
import type { ClientPosition } from '../../../src/plan/types.ts';
import { tableEntries } from '../../support/dataplane/set-table.ts';
import { admits, isPod } from '../../support/dataplane/source-ranges.ts';
import type { Answer } from '../conformance.ts';

const nobody = (verdict: Answer['verdict']): Answer => ({
  verdict,
  backends: [],
  keepingClient: [],
  masquerade: false,
});

const textOf = ({ address, port }: BackendValue): string => hostPort(address, port);

/** Of a packet, or of a socket whose source its frontends do not ask for. */
export function answerOfTables(tables: Tables, packet: Packet, position: ClientPosition): Answer {
  const frontend = frontendFor(tables, packet, position);
  if (frontend === undefined) return nobody('none');
  const rule = frontend.rules[position];
  if (!admits(tables, frontend, rule, packet.source)) return nobody('drop');
  if (rule.members === 0) return nobody(rule.whenEmpty);
  const backends = backendsOf(tables, chosenFrom(tables, rule), frontend.key.family);
  const { masquerade, keepsLocalClient } = rule;
  return {
    verdict: 'forward',
    backends: backends.map(textOf),
    masquerade,
    keepingClient: backends
      .filter(({ isLocal }) => masquerade && keepsLocalClient && isLocal)
      .map(textOf),
  };
}

/** The exact frontend, otherwise a NodePort, otherwise the wildcard that rejects the other ports of a ClusterIP. */
function frontendFor(
  tables: Tables,
  { destination, destinationPort, protocol }: Packet,
  position: ClientPosition,
): FrontendValue | undefined {
  const key = { family: familyOf(destination), port: destinationPort, protocol };
  const nodePort = (): FrontendValue | undefined =>
    answersNodePorts(tables, destination, position)
      ? lookUp(tables, { ...key, address: undefined })
      : undefined;
  return (
    lookUp(tables, { ...key, address: destination }) ??
    nodePort() ??
    lookUp(tables, { ...key, address: destination, port: undefined, protocol: undefined })
  );
}

function lookUp(tables: Tables, key: FrontendId): FrontendValue | undefined {
  const id = tables.frontend[key.family].get(encodeFrontendKey(key));
  return id && decodeFrontend(element(tables.frontendRecord, decodeU32(id)));
}

function answersNodePorts(tables: Tables, address: string, position: ClientPosition): boolean {
  const { runtime } = tables;
  if (runtime.view(0).getUint32(runtime.offset(0) + NODE_PORTS_OFFSET, true) === 0) return false;
  const family = familyOf(address);
  const known = family === 'IPv4' && isLoopback(address) ? '127.0.0.1' : address;
  const value = tables.nodeAddress[family].get(addressBytes(known, family));
  if (value === undefined) return false;
  return value[0] === ADDRESS_SCOPE.node || position === 'host';
}

interface Chosen {
  readonly serviceId: number;
  readonly ids: readonly number[];
}

/** What the algorithm chooses from, each id once: the members, or those that the table has, as bpf/common/algorithm.h. */
function chosenFrom(tables: Tables, rule: RuleValue): Chosen {
  const [serviceId = 0, ...ids] = readRun(tables.slotBlock, rule.block, rule.members);
  if (!hasTable(rule.kind)) return { serviceId, ids };
  const entries = tableEntries(tables, rule);
  if (entries.some((id) => !ids.includes(id))) throw new Error(`${entries} not all of ${ids}`);
  return { serviceId, ids: [...new Set(entries)] };
}

/** Every one must be an active backend of the service port that the set belongs to. */
function backendsOf(
  tables: Tables,
  { serviceId, ids }: Chosen,
  family: Family,
): readonly BackendValue[] {
  return ids.map((id) => {
    const backend = decodeBackend(element(tables.backend[family], id), family);
    if (backend.serviceId !== serviceId || backend.state !== BACKEND_STATE.ACTIVE) {
      throw new Error(
        `backend ${id} is in a set of service ${serviceId}, but is ${JSON.stringify(backend)}`,
      );
    }
    return backend;
  });
}

/** Of a packet that comes in, as position_of_source() has it. */
export const positionInTables = (tables: Tables, source: string): ClientPosition =>
  isPod(tables, source) ? 'pod' : 'outside';
