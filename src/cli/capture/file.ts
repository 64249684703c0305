// SPDX-License-Identifier: Apache-2.0
// Captures on disk: JSON in gzip.
import { closeSync, fchmodSync, fstatSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import { type Capture, captureIn } from '../../capture/format.ts';
import { FairleadError, reasonOf } from '../../errors.ts';
import { unreadableReason } from '../../lib/unreadable.ts';

/** More than any node has; a file of another's making may unpack to anything. */
const MAX_BYTES = 500 * 1024 * 1024;
/** It names every Service. */
const ONLY_OWNER = 0o600;

/** `-` is stdout. Throws what the file system throws. */
export function writeCapture(path: string, capture: Capture): number {
  const packed = gzipSync(JSON.stringify(capture));
  if (path === '-') process.stdout.write(packed);
  else writeOwn(path, packed);
  return packed.length;
}

/** A file that is there may be for others' eyes. */
function writeOwn(path: string, packed: Buffer): void {
  const file = openSync(path, 'w', ONLY_OWNER);
  try {
    if (fstatSync(file).isFile()) fchmodSync(file, ONLY_OWNER);
    writeFileSync(file, packed);
  } finally {
    closeSync(file);
  }
}

/** Throws BAD_OPTION. */
export function readCapture(path: string): Capture {
  const read = captureIn(documentIn(path));
  if (read.ok) return read.value;
  throw unfit(path, read.reason);
}

export const unfit = (path: string, reason: string): FairleadError =>
  new FairleadError('BAD_OPTION', `--capture ${path} cannot be used: ${reason}`);

function documentIn(path: string): unknown {
  let packed: Buffer;
  try {
    packed = readFileSync(path);
  } catch (error) {
    throw unfit(path, unreadableReason(error));
  }
  try {
    return JSON.parse(gunzipSync(packed, { maxOutputLength: MAX_BYTES }).toString());
  } catch (error) {
    throw unfit(path, `it is no file of \`fairlead capture\`, or was cut off (${reasonOf(error)})`);
  }
}
