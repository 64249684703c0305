// SPDX-License-Identifier: Apache-2.0
// Records as bytes of a segment: length (4 bytes, little endian), CRC-32 of the payload (4), payload. A record that a crash has
// cut off, or a disk has damaged, is told from one that is whole. Pure.
import { crc32, deflateSync, inflateSync } from 'node:zlib';
import { isRecord, type JsonRecord } from '../lib/json.ts';
import type { HistoryRecord } from './records.ts';

const HEAD_BYTES = 8;
/** What is longer costs less as compressed bytes. */
const COMPRESS_FROM = 4_096;
/** A length beyond this is none: the file is damaged. */
const MAX_BYTES = 64 * 2 ** 20;
/** No record has more; a file of another's making may unpack to anything. */
const MAX_JSON_BYTES = 256 * 2 ** 20;
/** JSON begins with a brace, and zlib's format never does. */
const BRACE = 0x7b;

export function frameOf(record: HistoryRecord): Buffer {
  const json = Buffer.from(JSON.stringify(record));
  const payload = json.length < COMPRESS_FROM ? json : deflateSync(json, { level: 1 });
  const frame = Buffer.allocUnsafe(HEAD_BYTES + payload.length);
  frame.writeUInt32LE(payload.length, 0);
  frame.writeUInt32LE(crc32(payload), 4);
  payload.copy(frame, HEAD_BYTES);
  return frame;
}

export interface Scanned {
  readonly record: HistoryRecord;
  /** Bytes of the segment up to the end of this record. */
  readonly end: number;
}

/** Every record up to the first one that is not whole. */
export function* scan(bytes: Buffer): Generator<Scanned> {
  for (let at = 0; at + HEAD_BYTES < bytes.length; ) {
    const length = bytes.readUInt32LE(at);
    const end = at + HEAD_BYTES + length;
    // Zeros, which some file systems leave after a crash, have the right checksum for a length of 0.
    if (length < 2 || length > MAX_BYTES || end > bytes.length) return;
    const payload = bytes.subarray(at + HEAD_BYTES, end);
    if (crc32(payload) !== bytes.readUInt32LE(at + 4)) return;
    const record = recordOf(payload);
    if (record === undefined) return;
    yield { record, end };
    at = end;
  }
}

/** Its checksum is right: this agent, or one of another version, has written it. */
function recordOf(payload: Buffer): HistoryRecord | undefined {
  try {
    const json =
      payload[0] === BRACE ? payload : inflateSync(payload, { maxOutputLength: MAX_JSON_BYTES });
    const value: unknown = JSON.parse(json.toString());
    return isRecord(value) && isFit(value) ? (value as unknown as HistoryRecord) : undefined;
  } catch {
    return undefined;
  }
}

/** Of its members, those without which nothing can be told from it. */
function isFit({ t, n, at, services }: JsonRecord): boolean {
  if (typeof t !== 'string' || typeof n !== 'number' || typeof at !== 'number') return false;
  if (t === 'key') return isRecord(services);
  return t !== 'sync' || (Array.isArray(services) && services.every(isRecord));
}
