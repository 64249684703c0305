// SPDX-License-Identifier: Apache-2.0
// What programs look up besides a frontend. Each kind is written before the first frontend that needs it and
// removed after the last: an agent that dies between two writes never leaves a frontend without them.
// A new table of this kind is one more row of SATELLITES.

import { LOCAL_BACKENDS } from '../../direct-return/local-backends.ts';
import { encodeServiceName, encodeU32, NODE_PORTS_OFFSET, SIZE } from '../../layout/layout.ts';
import { nameOf } from '../../layout/names.ts';
import { writeFailure } from '../../state/failure.ts';
import { addPort, removePort } from '../../state/ledger.ts';
import type { Tables } from '../../state/tables.ts';
import type { PreparedPort } from '../service-port/update.ts';
import { closeRanges, isNodePortKey, openRanges } from './service-ranges.ts';
import { SOURCE_RANGES } from './source-ranges.ts';
import { refusePort, type Satellite, type Sync } from './sync.ts';

/** Sockets skip the second look-up while no NodePort exists. */
const NODE_PORTS: Satellite = {
  put({ ledger, prepared }) {
    const coming = prepared
      .flatMap(({ puts }) => puts)
      .filter(({ key }) => isNodePortKey(key)).length;
    if (coming > 0) writeNodePorts(ledger.tables, ledger.nodePorts + coming);
  },
  remove: ({ ledger }) => writeNodePorts(ledger.tables, ledger.nodePorts),
};

function writeNodePorts({ runtime }: Tables, count: number): void {
  runtime.view(0).setUint32(runtime.offset(0) + NODE_PORTS_OFFSET, count, true);
}

/** Programs look for a frontend only in ranges of addresses, and by ports of NodePorts, that have one. */
const SERVICE_RANGES: Satellite = {
  put({ ledger, prepared }) {
    const keys = prepared.flatMap(({ puts }) => puts.filter(({ isNew }) => isNew));
    openRanges(
      ledger.ranges,
      ledger.tables.notService,
      keys.map(({ key }) => key),
    );
  },
  remove: ({ ledger }) => closeRanges(ledger.ranges, ledger.tables.notService),
};

/** The name of a new service id is written first, so that every frontend can be attributed. */
const SERVICE_NAMES: Satellite = {
  put: putNames,
  remove: ({ ledger, emptied }) => {
    ledger.tables.serviceName.delete(emptied.map(({ serviceId }) => encodeU32(serviceId)));
  },
};

/**
 * Put in this order, removed in the opposite one. Source ranges have a name for as long as they exist: those
 * without one would stay behind if the agent died, and the next one would not know whose they are.
 */
export const SATELLITES: readonly Satellite[] = [
  NODE_PORTS,
  SERVICE_RANGES,
  SERVICE_NAMES,
  SOURCE_RANGES,
  LOCAL_BACKENDS,
];

function putNames(sync: Sync): void {
  const fresh = sync.prepared.filter((prepared) => prepared.isNew);
  const table = sync.ledger.tables.serviceName;
  const refused = table.put(
    fresh.map(({ record }) => encodeU32(record.serviceId)),
    encodeNames(fresh.map(({ record }) => record.key)),
  );
  const refusedAt = new Map(refused.map((refusal) => [refusal.index, refusal]));
  for (const [index, prepared] of fresh.entries()) {
    const refusal = refusedAt.get(index);
    if (refusal === undefined) nameGiven(sync, prepared);
    else refusePort(sync, prepared, writeFailure(table.name, refusal.code));
  }
}

/** The port is the ledger's now, unless a later satellite refuses it. */
function nameGiven({ ledger }: Sync, { record, undos }: PreparedPort): void {
  addPort(ledger, record);
  undos.push(() => {
    ledger.tables.serviceName.delete([encodeU32(record.serviceId)]);
    removePort(ledger, record);
  });
}

function encodeNames(portKeys: readonly string[]): readonly Uint8Array[] {
  const size = SIZE.service_name;
  const names = new Uint8Array(portKeys.length * size);
  return portKeys.map((key, index) =>
    encodeServiceName(nameOf(key), names.subarray(index * size, (index + 1) * size)),
  );
}
