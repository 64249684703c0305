// SPDX-License-Identifier: Apache-2.0
// One endpoint of an EndpointSlice. Missing conditions mean what the API says: ready and serving default
// to true, terminating to false (KEP-1672). Written for speed: a full list has 100,000 of these.
import { canonicalAddress, validateHostAddress } from '../../lib/ip.ts';
import { isAbsent, isRecord, shown } from '../../lib/json.ts';
import { readAddress } from '../fields.ts';
import type { Reject } from '../rejection-collector.ts';
import type { Sharing } from '../sharing.ts';
import type { Endpoint } from '../types.ts';

const NO_HINTS: readonly string[] = Object.freeze([]);

/** What reading the endpoints of one slice needs. */
export interface EndpointReading {
  readonly reject: Reject;
  readonly sharing: Sharing;
}

/** Undefined with a rejection if the entry cannot be used, undefined without if it has no address. */
export function readEndpoint(
  entry: unknown,
  index: number,
  { reject, sharing }: EndpointReading,
): Endpoint | undefined {
  if (!isRecord(entry))
    return reject(`endpoints[${index}]`, `must be an object, not ${shown(entry)}`);
  const { addresses, conditions, nodeName, zone, hints } = entry;
  if (isAbsent(addresses) || (Array.isArray(addresses) && addresses.length === 0)) return undefined;
  if (!Array.isArray(addresses)) {
    return reject(`endpoints[${index}].addresses`, `must be a list, not ${shown(addresses)}`);
  }
  const address = readAddressAt(addresses[0], index, reject);
  if (address === undefined) return undefined;
  if (!isAbsent(conditions) && !isRecord(conditions)) {
    return reject(`endpoints[${index}].conditions`, `must be an object, not ${shown(conditions)}`);
  }
  const isReady = flag(conditions?.['ready'], true);
  const isServing = flag(conditions?.['serving'], true);
  const isTerminating = flag(conditions?.['terminating'], false);
  if (isReady === undefined || isServing === undefined || isTerminating === undefined) {
    return reject(
      `endpoints[${index}].conditions`,
      'ready, serving and terminating must be true or false',
    );
  }
  const traits = sharing.traits({
    isReady,
    isServing,
    isTerminating,
    nodeName: optionalText(nodeName, index, 'nodeName', reject),
    zone: optionalText(zone, index, 'zone', reject),
    zoneHints: isAbsent(hints) ? NO_HINTS : readHints(hints, 'forZones', index, reject),
    nodeHints: isAbsent(hints) ? NO_HINTS : readHints(hints, 'forNodes', index, reject),
  });
  return { address, traits };
}

/** The field's text is made only when something is rejected: it costs more than reading the address. */
function readAddressAt(value: unknown, index: number, reject: Reject): string | undefined {
  const address = typeof value === 'string' ? canonicalAddress(value) : undefined;
  if (address !== undefined && validateHostAddress(address) === undefined) return address;
  return readAddress(value, `endpoints[${index}].addresses[0]`, reject);
}

const flag = (value: unknown, absent: boolean): boolean | undefined => {
  if (typeof value === 'boolean') return value;
  return isAbsent(value) ? absent : undefined;
};

function optionalText(
  value: unknown,
  index: number,
  key: string,
  reject: Reject,
): string | undefined {
  if (typeof value === 'string') return value === '' ? undefined : value;
  if (isAbsent(value)) return undefined;
  return reject(`endpoints[${index}].${key}`, `must be text, not ${shown(value)}; it is ignored`);
}

/** `{forZones: [{name: 'a'}]}` -> `['a']`. A bad hint is reported and does not count (KEP-2433, KEP-3015). */
function readHints(hints: unknown, key: string, index: number, reject: Reject): readonly string[] {
  const field = `endpoints[${index}].hints`;
  if (!isRecord(hints)) {
    if (key === 'forZones') reject(field, `must be an object, not ${shown(hints)}`);
    return NO_HINTS;
  }
  const list = hints[key];
  if (isAbsent(list)) return NO_HINTS;
  if (!Array.isArray(list)) {
    reject(`${field}.${key}`, `must be a list, not ${shown(list)}`);
    return NO_HINTS;
  }
  const names: string[] = [];
  for (const [at, item] of list.entries()) {
    const name: unknown = isRecord(item) ? item['name'] : undefined;
    if (typeof name === 'string') names.push(name);
    else reject(`${field}.${key}[${at}].name`, `must be text, not ${shown(name)}`);
  }
  return names;
}
