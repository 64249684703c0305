// SPDX-License-Identifier: Apache-2.0
// EndpointSlice object (discovery.k8s.io/v1) -> EndpointSlice, with the defaults and gaps kube-proxy's
// endpointslicecache.go has: ports without a name or a number do not count, only addresses[0] is used.

import { exactList, flatText } from '../lib/compact.ts';
import { familyOf } from '../lib/ip.ts';
import { isAbsent, isRecord, type JsonRecord, shown } from '../lib/json.ts';
import { whyNotLabel } from '../lib/names.ts';
import { type EndpointReading, readEndpoint } from './endpoint.ts';
import { sortEndpoints } from './endpoint-order.ts';
import { readLabels, readList, readPort, readPortName, readProtocol } from './fields.ts';
import { HEADLESS_LABEL, SERVICE_NAME_LABEL } from './labels.ts';
import { type Refuse, refusalsOf } from './refusals.ts';
import { createSharing, type Sharing } from './sharing.ts';
import type {
  Endpoint,
  EndpointColumns,
  EndpointSlice,
  Family,
  ObjectRef,
  Projection,
  SlicePort,
} from './types.ts';

/** Presence of the key is enough: the slice serves DNS alone, not a proxy. */

/** Never throws, whatever `object` is. Linear in its size. Slices share what their `sharing` knows. */
export function projectSlice(
  ref: ObjectRef,
  object: unknown,
  sharing: Sharing = createSharing(),
): Projection<EndpointSlice> {
  const { refuse, rejections } = refusalsOf(ref);
  return { value: readSlice(ref, object, { refuse, sharing }), rejections };
}

function readSlice(
  ref: ObjectRef,
  object: unknown,
  reading: EndpointReading,
): EndpointSlice | undefined {
  const { refuse, sharing } = reading;
  if (!isRecord(object)) return refuse('', `must be an object, not ${shown(object)}`);
  const labels = readLabels(object, refuse);
  if (Object.hasOwn(labels, HEADLESS_LABEL)) return undefined;
  const owner = readOwner(ref, labels, refuse);
  const family = readFamily(object['addressType'], refuse);
  if (owner === undefined || family === undefined) return undefined;
  const { addresses, traits } = readEndpoints(object['endpoints'], family, reading);
  return {
    name: ref.name,
    service: flatText(ref.namespace, '/', owner),
    family,
    ports: sharing.slicePorts(readSlicePorts(object['ports'], refuse)),
    addresses,
    traits,
  };
}

/** A slice without the label belongs to no Service: that is not an error. */
function readOwner(ref: ObjectRef, labels: JsonRecord, refuse: Refuse): string | undefined {
  const value = labels[SERVICE_NAME_LABEL];
  if (!Object.hasOwn(labels, SERVICE_NAME_LABEL) || isAbsent(value) || value === '')
    return undefined;
  const field = `metadata.labels["${SERVICE_NAME_LABEL}"]`;
  if (typeof value !== 'string') return refuse(field, `must be text, not ${shown(value)}`);
  const problem = whyNotLabel(value);
  if (problem !== undefined) return refuse(field, `${shown(value)} ${problem}`);
  const namespaceProblem = whyNotLabel(ref.namespace);
  if (namespaceProblem === undefined) return value;
  return refuse('metadata.namespace', `${shown(ref.namespace)} ${namespaceProblem}`);
}

function readFamily(value: unknown, refuse: Refuse): Family | undefined {
  if (value === 'IPv4' || value === 'IPv6') return value;
  if (value === 'FQDN') return undefined;
  return refuse('addressType', `must be IPv4, IPv6 or FQDN, not ${shown(value)}`);
}

function readSlicePorts(value: unknown, refuse: Refuse): readonly SlicePort[] {
  const ports: SlicePort[] = [];
  for (const [index, entry] of readList(value, 'ports', refuse).entries()) {
    const port = readSlicePort(entry, `ports[${index}]`, refuse);
    if (port !== undefined) ports.push(port);
  }
  return exactList(ports);
}

/** No name or no number ("all ports") is legal and means nothing to a proxy. */
function readSlicePort(entry: unknown, field: string, refuse: Refuse): SlicePort | undefined {
  if (!isRecord(entry)) return refuse(field, `must be an object, not ${shown(entry)}`);
  if (isAbsent(entry['name']) || isAbsent(entry['port'])) return undefined;
  const name = readPortName(entry['name'], `${field}.name`, refuse);
  const protocol = readProtocol(entry['protocol'], `${field}.protocol`, refuse);
  const port = readPort(entry['port'], `${field}.port`, refuse);
  if (name === undefined || protocol === undefined || port === undefined) return undefined;
  return { name, protocol, port };
}

function readEndpoints(value: unknown, family: Family, reading: EndpointReading): EndpointColumns {
  const { refuse } = reading;
  const endpoints: Endpoint[] = [];
  const list = readList(value, 'endpoints', refuse);
  for (let index = 0; index < list.length; index += 1) {
    const endpoint = readEndpoint(list[index], index, reading);
    if (endpoint === undefined) continue;
    if (familyOf(endpoint.address) === family) endpoints.push(endpoint);
    else refuse(`endpoints[${index}].addresses[0]`, `${endpoint.address} is not of ${family}`);
  }
  const sorted = sortEndpoints(endpoints);
  return {
    addresses: sorted.map(({ address }) => address),
    traits: sorted.map(({ traits }) => traits),
  };
}
