// SPDX-License-Identifier: Apache-2.0
// The bytes of an API object -> its text, without metadata.managedFields.
import { outside, walkNested } from './nesting.ts';

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
