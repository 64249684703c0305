// SPDX-License-Identifier: Apache-2.0
// Readers of single fields: the value if it is right, `undefined` and a rejection if it is not.
// Limits are those of Kubernetes' own validation (k8s.io/kubernetes/pkg/apis/core/validation).
import { flatText } from '../lib/compact.ts';
import { canonicalAddress, whySpecial } from '../lib/ip.ts';
import { isAbsent, isRecord, type JsonRecord, shown } from '../lib/json.ts';
import { compareText, whyNotLabel } from '../lib/names.ts';
import type { Refuse } from './refusals.ts';
import type { Protocol } from './types.ts';

const NO_ITEMS: readonly unknown[] = Object.freeze([]);

/** A list; absent = empty, anything else is refused and counts as empty. */
export function readList(value: unknown, field: string, refuse: Refuse): readonly unknown[] {
  if (isAbsent(value)) return NO_ITEMS;
  if (Array.isArray(value)) return value;
  refuse(field, `must be a list, not ${shown(value)}`);
  return NO_ITEMS;
}

/** A section; absent = undefined, anything but an object is refused. */
export function readRecord(value: unknown, field: string, refuse: Refuse): JsonRecord | undefined {
  if (isAbsent(value)) return undefined;
  return isRecord(value) ? value : refuse(field, `must be an object, not ${shown(value)}`);
}

export function readString(value: unknown, field: string, refuse: Refuse): string | undefined {
  if (isAbsent(value)) return undefined;
  return typeof value === 'string' ? value : refuse(field, `must be text, not ${shown(value)}`);
}

/** A port number 1..65535; absence is the caller's affair. */
export function readPort(value: unknown, field: string, refuse: Refuse): number | undefined {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 65535) {
    return value;
  }
  return refuse(field, `must be a port number from 1 to 65535, not ${shown(value)}`);
}

/** TCP, UDP or SCTP; absent = TCP, as the API server would fill in. */
export function readProtocol(value: unknown, field: string, refuse: Refuse): Protocol | undefined {
  if (isAbsent(value) || value === 'TCP') return 'TCP';
  if (value === 'UDP' || value === 'SCTP') return value;
  return refuse(field, `must be TCP, UDP or SCTP, not ${shown(value)}`);
}

/** A port's name; absent = ''. */
export function readPortName(value: unknown, field: string, refuse: Refuse): string | undefined {
  if (isAbsent(value) || value === '') return '';
  if (typeof value !== 'string') return refuse(field, `must be text, not ${shown(value)}`);
  const problem = whyNotLabel(value);
  return problem === undefined ? value : refuse(field, `${shown(value)} ${problem}`);
}

/** A canonical address that one machine can own (Kubernetes: ValidateNonSpecialIP). */
export function readAddress(value: unknown, field: string, refuse: Refuse): string | undefined {
  const address = typeof value === 'string' ? canonicalAddress(value) : undefined;
  if (address === undefined) return refuse(field, `must be an IP address, not ${shown(value)}`);
  const special = whySpecial(address);
  return special === undefined ? address : refuse(field, `${address} is ${special}`);
}

/** One of the choices; absent = the first of them; anything else is refused and counts as the first. */
export function readChoice<T extends string>(
  value: unknown,
  choices: readonly [T, ...T[]],
  field: string,
  refuse: Refuse,
): T {
  if (isAbsent(value)) return choices[0];
  const found = choices.find((choice) => choice === value);
  if (found === undefined) refuse(field, `must be ${choices.join(' or ')}, not ${shown(value)}`);
  return found ?? choices[0];
}

/** Keys of metadata.labels, or of an object without labels. */
export function readLabels(object: JsonRecord, refuse: Refuse): JsonRecord {
  const metadata = readRecord(object['metadata'], 'metadata', refuse);
  return readRecord(metadata?.['labels'], 'metadata.labels', refuse) ?? {};
}

/** `app=web,tier=front`, sorted: one text weighs a fraction of a record. Values that are no text do not count. */
export function labelText(labels: JsonRecord): string {
  const pairs = Object.entries(labels).flatMap(([key, value]) =>
    typeof value === 'string' ? [`${key}=${value}`] : [],
  );
  return pairs.length === 0 ? '' : flatText(pairs.sort(compareText).join());
}
