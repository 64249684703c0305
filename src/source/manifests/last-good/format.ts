// SPDX-License-Identifier: Apache-2.0
// The objects of a folder that count, as a file: a line of JSON that says what it is, then a line for each object. Pure.
import { isRecord, recordOrEmpty } from '../../../lib/json.ts';
import { unknownFields } from '../known-fields.ts';
import { nameObject } from '../naming.ts';
import type { Manifest } from '../parse.ts';
import type { Counted } from './counting.ts';

/** Another number: of another version of fairlead, which may mean something else. */
const FORMAT = 1;
/** One chunk is made in less than a millisecond. */
const CHUNK_LENGTH = 64 * 1024;
const NEWLINE = 0x0a;

export interface CountedObject {
  /** The manifest file that it was last read from. */
  readonly file: string;
  readonly object: Counted;
}

export interface Recalled {
  readonly file: string;
  readonly manifest: Manifest;
}

/** The file's text. */
export function* chunksOf(folder: string, objects: Iterable<CountedObject>): Generator<string> {
  let chunk = `${JSON.stringify({ format: FORMAT, folder })}\n`;
  for (const { file, object } of objects) {
    const text = typeof object === 'string' ? object : JSON.stringify(object);
    chunk += `[${JSON.stringify(file)},${text}]\n`;
    if (chunk.length < CHUNK_LENGTH) continue;
    yield chunk;
    chunk = '';
  }
  if (chunk !== '') yield chunk;
}

/** Back to objects, a step for each. Throws an error that says why they cannot be used. */
export function* recalledInSteps(bytes: Buffer, folder: string): Generator<void, Recalled[]> {
  const lines = linesOf(bytes);
  checkHeader(recordOrEmpty(lines.next().value), folder);
  const recalled: Recalled[] = [];
  for (const line of lines) {
    recalled.push(recalledOf(line));
    yield;
  }
  return recalled;
}

function* linesOf(bytes: Buffer): Generator<unknown> {
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, start);
    if (end < 0) throw new Error('its last line has no end');
    yield JSON.parse(bytes.toString('utf8', start, end));
    start = end + 1;
  }
}

function checkHeader({ format, folder }: ReturnType<typeof recordOrEmpty>, ours: string): void {
  if (format !== FORMAT) throw new Error('it is of another version of fairlead');
  if (folder !== ours) throw new Error(`it is of the folder ${String(folder)}`);
}

function recalledOf(line: unknown): Recalled {
  const [file, value]: readonly unknown[] = Array.isArray(line) ? line : [];
  const named = isRecord(value) ? nameObject({ value, at: '' }) : undefined;
  if (typeof file !== 'string' || named?.ok !== true) throw new Error('a line is no object');
  const { ref, object } = named;
  const unknown = unknownFields(ref.kind, object);
  return { file, manifest: { ref, object, at: '', unknownFields: unknown } };
}
