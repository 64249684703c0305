// SPDX-License-Identifier: Apache-2.0
// spec.ports of a Service -> ServicePort[]. Whatever two ports of one Service cannot share (name and
// protocol, number and protocol, NodePort and protocol) stays with the first of them.
import { exactList } from '../../lib/compact.ts';
import { isAbsent, isRecord, shown } from '../../lib/json.ts';
import { readList, readPort, readPortName, readProtocol } from '../fields.ts';
import type { Reject } from '../rejection-collector.ts';
import type { ServicePort } from '../types.ts';

/** What earlier ports of the same Service took: `port 80/TCP` -> the field that has it. */
type Taken = Map<string, string>;

export const portField = (index: number): string => `spec.ports[${index}]`;

/** Linear in the number of entries. A rejected port leaves its neighbours alone. */
export function readServicePorts(value: unknown, reject: Reject): readonly ServicePort[] {
  const entries = readList(value, 'spec.ports', reject);
  if (Array.isArray(value) ? entries.length === 0 : isAbsent(value)) {
    reject('spec.ports', 'is empty: a Service with a ClusterIP needs a port');
  }
  // Nearly every Service has one port, which nothing can have taken.
  const taken: Taken | undefined = entries.length > 1 ? new Map() : undefined;
  const ports: ServicePort[] = [];
  for (const [index, entry] of entries.entries()) {
    const port = readServicePort(entry, index, reject);
    if (port === undefined) continue;
    const kept = taken === undefined ? port : withoutTaken(port, taken, reject);
    if (kept !== undefined) ports.push(kept);
  }
  return exactList(ports);
}

function readServicePort(entry: unknown, index: number, reject: Reject): ServicePort | undefined {
  const field = portField(index);
  if (!isRecord(entry)) return reject(field, `must be an object, not ${shown(entry)}`);
  const name = readPortName(entry['name'], `${field}.name`, reject);
  const protocol = readProtocol(entry['protocol'], `${field}.protocol`, reject);
  const port = readPort(entry['port'], `${field}.port`, reject);
  if (name === undefined || protocol === undefined || port === undefined) return undefined;
  const isNone = isAbsent(entry['nodePort']) || entry['nodePort'] === 0;
  const nodePort = isNone ? undefined : readPort(entry['nodePort'], `${field}.nodePort`, reject);
  return { name, protocol, port, nodePort, index };
}

function withoutTaken(port: ServicePort, taken: Taken, reject: Reject): ServicePort | undefined {
  const { name, protocol } = port;
  const field = portField(port.index);
  const nameHolder = taken.get(`name ${name}/${protocol}`);
  if (nameHolder !== undefined) {
    return reject(`${field}.name`, `${shown(name)} for ${protocol} is already ${nameHolder}`);
  }
  const numberHolder = taken.get(`port ${port.port}/${protocol}`);
  if (numberHolder !== undefined) {
    return reject(`${field}.port`, `${port.port}/${protocol} is already ${numberHolder}`);
  }
  taken.set(`name ${name}/${protocol}`, field);
  taken.set(`port ${port.port}/${protocol}`, field);
  if (port.nodePort === undefined) return port;
  const nodePortHolder = taken.get(`node ${port.nodePort}/${protocol}`);
  if (nodePortHolder !== undefined) {
    reject(
      `${field}.nodePort`,
      `${port.nodePort}/${protocol} is already ${nodePortHolder}.nodePort`,
    );
    return { ...port, nodePort: undefined };
  }
  taken.set(`node ${port.nodePort}/${protocol}`, field);
  return port;
}
