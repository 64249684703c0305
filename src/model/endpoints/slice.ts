// SPDX-License-Identifier: Apache-2.0
// EndpointSlice object (discovery.k8s.io/v1) -> EndpointSlice, with the defaults and gaps kube-proxy's
// endpointslicecache.go has: ports without a name or a number do not count, only addresses[0] is used.

import { exactList, flatText } from '../../lib/compact.ts';
import { canonicalAddress, familyOf } from '../../lib/ip.ts';
import { isAbsent, isRecord, type JsonRecord, shown } from '../../lib/json.ts';
import { validateLabel } from '../../lib/names.ts';
import { ANNOTATIONS } from '../annotations.ts';
import {
  annotationField,
  readAnnotation,
  readLabels,
  readList,
  readPort,
  readPortName,
  readProtocol,
} from '../fields.ts';
import { HEADLESS_LABEL, SERVICE_NAME_LABEL } from '../labels.ts';
import { collectRejections, type Reject } from '../rejection-collector.ts';
import { createSharing, type Sharing } from '../sharing.ts';
import type {
  Endpoint,
  EndpointColumns,
  EndpointSlice,
  Family,
  ObjectRef,
  Projection,
  SlicePort,
} from '../types.ts';
import { type EndpointReading, readEndpoint } from './endpoint.ts';
import { sortEndpoints } from './order.ts';

/** Never throws, whatever `object` is. Linear in its size. Slices share what their `sharing` knows. */
export function projectSlice(
  ref: ObjectRef,
  object: unknown,
  sharing: Sharing = createSharing(),
): Projection<EndpointSlice> {
  const { reject, rejections } = collectRejections(ref);
  return { value: readSlice(ref, object, { reject, sharing }), rejections };
}

function readSlice(
  ref: ObjectRef,
  object: unknown,
  reading: EndpointReading,
): EndpointSlice | undefined {
  const { reject, sharing } = reading;
  if (!isRecord(object)) return reject('', `must be an object, not ${shown(object)}`);
  const labels = readLabels(object, reject);
  if (Object.hasOwn(labels, HEADLESS_LABEL)) return undefined;
  const owner = readOwner(ref, labels, reject);
  const family = readFamily(object['addressType'], reject);
  if (owner === undefined || family === undefined) return undefined;
  const { name } = ref;
  const service = flatText(ref.namespace, '/', owner);
  if (family === 'FQDN') return { name, service, family, ports: [], addresses: [], traits: [] };
  const { addresses, traits } = readEndpoints(object['endpoints'], family, reading);
  const weights = readWeights(object, addresses, reject);
  return {
    name,
    service,
    family,
    ports: sharing.slicePorts(readSlicePorts(object['ports'], reject)),
    addresses,
    traits,
    ...(weights !== undefined && { weights }),
  };
}

/** A slice without the label belongs to no Service: that is not an error. */
function readOwner(ref: ObjectRef, labels: JsonRecord, reject: Reject): string | undefined {
  const value = labels[SERVICE_NAME_LABEL];
  if (!Object.hasOwn(labels, SERVICE_NAME_LABEL) || isAbsent(value) || value === '')
    return undefined;
  const field = `metadata.labels["${SERVICE_NAME_LABEL}"]`;
  if (typeof value !== 'string') return reject(field, `must be text, not ${shown(value)}`);
  const problem = validateLabel(value);
  if (problem !== undefined) return reject(field, `${shown(value)} ${problem}`);
  const namespaceProblem = validateLabel(ref.namespace);
  if (namespaceProblem === undefined) return value;
  return reject('metadata.namespace', `${shown(ref.namespace)} ${namespaceProblem}`);
}

function readFamily(value: unknown, reject: Reject): EndpointSlice['family'] | undefined {
  if (value === 'IPv4' || value === 'IPv6' || value === 'FQDN') return value;
  return reject('addressType', `must be IPv4, IPv6 or FQDN, not ${shown(value)}`);
}

function readSlicePorts(value: unknown, reject: Reject): readonly SlicePort[] {
  const ports: SlicePort[] = [];
  for (const [index, entry] of readList(value, 'ports', reject).entries()) {
    const port = readSlicePort(entry, `ports[${index}]`, reject);
    if (port !== undefined) ports.push(port);
  }
  return exactList(ports);
}

/** No name or no number ("all ports") is legal and means nothing to a proxy. */
function readSlicePort(entry: unknown, field: string, reject: Reject): SlicePort | undefined {
  if (!isRecord(entry)) return reject(field, `must be an object, not ${shown(entry)}`);
  if (isAbsent(entry['name']) || isAbsent(entry['port'])) return undefined;
  const name = readPortName(entry['name'], `${field}.name`, reject);
  const protocol = readProtocol(entry['protocol'], `${field}.protocol`, reject);
  const port = readPort(entry['port'], `${field}.port`, reject);
  if (name === undefined || protocol === undefined || port === undefined) return undefined;
  return { name, protocol, port };
}

function readEndpoints(value: unknown, family: Family, reading: EndpointReading): EndpointColumns {
  const { reject } = reading;
  const endpoints: Endpoint[] = [];
  const list = readList(value, 'endpoints', reject);
  for (let index = 0; index < list.length; index += 1) {
    const endpoint = readEndpoint(list[index], index, reading);
    if (endpoint === undefined) continue;
    if (familyOf(endpoint.address) === family) endpoints.push(endpoint);
    else reject(`endpoints[${index}].addresses[0]`, `${endpoint.address} is not of ${family}`);
  }
  const sorted = sortEndpoints(endpoints);
  return {
    addresses: sorted.map(({ address }) => address),
    traits: sorted.map(({ traits }) => traits),
  };
}

// The weights of a slice's endpoints, from its annotation `fairlead.io/weights`.
//   `10.1.1.5=3, 10.1.1.6=0, *=10`: 3 and 0, and 10 for all other addresses of the slice

/** As in IPVS. */
const LARGEST_WEIGHT = 65_535;
const USUAL_WEIGHT = 1;
/** Every address that is not listed. */
const OTHERS = '*';

/**
 * One for each address; undefined = all have the usual one. A bad entry is rejected alone, an address that is not in
 * the slice is named.
 */
function readWeights(
  object: JsonRecord,
  addresses: readonly string[],
  reject: Reject,
): readonly number[] | undefined {
  const text = readAnnotation(object, ANNOTATIONS.weights.name, reject);
  if (text === undefined) return undefined;
  const listed = readEntries(text, reject);
  const known = new Set(addresses);
  for (const address of listed.keys()) {
    if (address === OTHERS || known.has(address)) continue;
    reject(annotationField(ANNOTATIONS.weights.name), `${address} is no endpoint of this slice`);
  }
  const others = listed.get(OTHERS) ?? USUAL_WEIGHT;
  const weights = addresses.map((address) => listed.get(address) ?? others);
  return weights.every((weight) => weight === USUAL_WEIGHT) ? undefined : weights;
}

function readEntries(text: string, reject: Reject): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  const field = annotationField(ANNOTATIONS.weights.name);
  for (const entry of text.split(/[\s,]+/).filter((part) => part !== '')) {
    const [, name = '', weight = ''] = /^([^=]+)=(\d{1,5})$/.exec(entry) ?? [];
    const address = name === OTHERS ? OTHERS : canonicalAddress(name);
    if (address === undefined || Number(weight) > LARGEST_WEIGHT) {
      reject(
        field,
        `${shown(entry)} must be an IP address or *, then = and a weight from 0 to ${LARGEST_WEIGHT}`,
      );
    } else if (found.has(address)) {
      reject(field, `${address} is listed twice: its first weight, ${found.get(address)}, counts`);
    } else {
      found.set(address, Number(weight));
    }
  }
  return found;
}
