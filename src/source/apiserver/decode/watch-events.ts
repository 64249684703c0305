// SPDX-License-Identifier: Apache-2.0
// The bytes of one watch event or one list item -> what it says, pruned.
import { isRecord, type JsonRecord, member, recordOrEmpty } from '../../../lib/json.ts';
import type { ObjectRef } from '../../../model/types.ts';
import type { KindSpec } from '../kinds.ts';
import type { Intern } from './intern.ts';
import { outside, walkNested } from './nesting.ts';

/** Marks the bookmark after the last initial event (KEP-3157). */
const INITIAL_END_ANNOTATION = 'k8s.io/initial-events-end';

/** One object as the server has it at `version`. */
export interface ObservedObject {
  readonly ref: ObjectRef;
  readonly version: string;
  readonly uid: string;
  readonly object: JsonRecord;
}

export type WatchEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly observed: ObservedObject }
  | { readonly type: 'BOOKMARK'; readonly version: string; readonly isInitialEnd: boolean }
  | {
      readonly type: 'ERROR';
      readonly code: number;
      readonly message: string;
      readonly retryAfterMs: number;
    }
  /** A type of event this code does not know, or an object without a name. */
  | { readonly type: 'OTHER' };

export interface Decoder {
  /** Throws SyntaxError for what is no JSON. */
  event(line: Uint8Array): WatchEvent;
  /** Undefined for an object without a name. Throws SyntaxError. */
  item(bytes: Uint8Array): ObservedObject | undefined;
}

export function createDecoder(spec: KindSpec, intern: Intern): Decoder {
  const observedOf = (object: unknown): ObservedObject | undefined => {
    if (!isRecord(object)) return undefined;
    const pruned = spec.prune(object, intern);
    const metadata = recordOrEmpty(pruned['metadata']);
    const name = textOr(metadata['name'], '');
    if (name === '') return undefined;
    return {
      ref: { kind: spec.kind, namespace: textOr(metadata['namespace'], ''), name },
      version: textOr(metadata['resourceVersion'], ''),
      uid: textOr(metadata['uid'], ''),
      object: pruned,
    };
  };
  return {
    item: (bytes) => observedOf(JSON.parse(objectText(bytes))),
    event(line) {
      const event = recordOrEmpty(JSON.parse(objectText(line)));
      const { type, object } = event;
      if (type === 'BOOKMARK') return bookmarkOf(object);
      if (type === 'ERROR') return errorOf(object);
      if (type !== 'ADDED' && type !== 'MODIFIED' && type !== 'DELETED') return { type: 'OTHER' };
      const observed = observedOf(object);
      return observed === undefined ? { type: 'OTHER' } : { type, observed };
    },
  };
}

const textOr = (value: unknown, other: string): string =>
  typeof value === 'string' ? value : other;

function bookmarkOf(object: unknown): WatchEvent {
  const metadata = recordOrEmpty(recordOrEmpty(object)['metadata']);
  const annotations = recordOrEmpty(metadata['annotations']);
  return {
    type: 'BOOKMARK',
    version: textOr(metadata['resourceVersion'], ''),
    isInitialEnd: member(annotations, INITIAL_END_ANNOTATION) === 'true',
  };
}

/** The object of an ERROR event is a metav1.Status. */
function errorOf(object: unknown): WatchEvent {
  const { code, message, details } = recordOrEmpty(object);
  const seconds = recordOrEmpty(details)['retryAfterSeconds'];
  return {
    type: 'ERROR',
    code: typeof code === 'number' ? code : 0,
    message: textOr(message, 'no message'),
    retryAfterMs: typeof seconds === 'number' && seconds > 0 ? seconds * 1000 : 0,
  };
}

/**
 * How the member begins as every API server writes it: without spaces, and never first. In JSON these bytes
 * are nothing else: inside a string a backslash would stand before each quote, and a quote that ends a
 * string is not followed by an `m`.
 */
const MEMBER = Buffer.from(',"managedFields":[');

/**
 * A third of a small object tells who set which field: nobody here reads it, and parsing it makes an object
 * and a key of each field. Whatever is not as expected stays as it is: JSON.parse() has the last word.
 */
export function objectText(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = buffer.indexOf(MEMBER);
  if (start === -1) return buffer.toString('utf8');
  const nesting = { ...outside(), depth: 1 };
  const end = walkNested(buffer, start + MEMBER.length, nesting);
  if (nesting.depth > 0) return buffer.toString('utf8');
  return buffer.toString('utf8', 0, start) + buffer.toString('utf8', end);
}
